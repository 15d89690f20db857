"""Search for recordings in the user's paths: files, zips, folders of ranks."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterable, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import cast

from whyidle import readers
from whyidle.errors import InputError, NotATraceError
from whyidle.model.plugin import Importer
from whyidle.readers import kineto
from whyidle.readers._events.trace_header import rank_in_names
from whyidle.readers._files.file_identification import REPORT, head_of, not_a_trace

Origin = tuple[Path, str | None]
"""a file, and the member's name if the file is a zip"""

MOST_FILES = 4096
_NAMES = re.compile(r"\.(json|trace|gz|zip)$", re.IGNORECASE)
_SURELY = re.compile(r"\.pt\.trace\.json(\.gz)?$")


def find_recordings(*paths: Path, importers: Sequence[Importer] = ()) -> list[Origin]:
    """Return every recording among the paths, ranks in order. A file named directly is always
    taken; from folders and zips only files that look like a trace, or that one of the ``importers``
    of other packages reads.

    Raises:
        InputError: a path does not exist, or nothing usable is in it; the message says what is.
    """
    origins: dict[Origin, None] = {}
    for path in paths:
        origins |= dict.fromkeys(_expand_path(path, importers))
    return list(origins)


def find_importer(path: Path, member: str | None, importers: Sequence[Importer]) -> Importer | None:
    """Return the importer that reads a file, of another package or of ours; None: a trace of
    PyTorch's profiler, or nothing that can be read."""
    name = (member or path.name).lower()
    foreign = [importer for importer in importers if name.endswith(tuple(importer.SUFFIXES))]
    try:
        head = head_of(path, member)
    except InputError:
        return None
    return next((one for one in (*foreign, *own_importers()) if one.sniff(head)), None)


@cache
def own_importers() -> tuple[Importer, ...]:
    """The readers of this package that a file is offered to: every module and folder but
    ``kineto``, as which any other file is read, and ``probe``, which reads folders."""
    names = sorted({info.name for info in iter_modules(readers.__path__)} - {"kineto", "probe"})
    paths = [f"{readers.__name__}.{name}" for name in names if name[0] != "_"]
    return tuple(cast("Importer", import_module(path)) for path in paths)


def _expand_path(path: Path, importers: Sequence[Importer]) -> list[Origin]:
    if not path.exists():
        raise InputError(f"{path} does not exist.", hint="Check the path.")
    if path.is_dir():
        return _in_folder(path, importers)
    zipped = path.is_file() and zipfile.is_zipfile(path)  # a pipe must not be waited for
    return _in_zip(path, importers) if zipped else [(path, None)]


def _in_folder(folder: Path, importers: Sequence[Importer]) -> list[Origin]:
    # logs/train/plugins/profile/RUN/HOST.xplane.pb is at depth 4
    files = _walk_folder(folder, 4)
    origins: list[Origin] = []
    for file in _without_twins(file for file in files if _has_known_name(file.name, importers)):
        if zipfile.is_zipfile(file):
            origins += _zip_members(file, importers)
        elif _is_trace(file, None, importers):
            origins.append((file, None))
    if not origins:
        for file in files:
            if REPORT.search(file.name):
                raise not_a_trace(file, None, None)
        raise NotATraceError(
            f"There is no recording in this folder: {folder.resolve()}",
            why=f"It holds {_describe_folder(file.name for file in files)}.",
            hint="Pass the folder that tensorboard_trace_handler or export_chrome_trace wrote to, "
            "or a profile folder of TensorFlow or JAX.",
        )
    return sorted(origins, key=_sort_key)


def _walk_folder(folder: Path, depth: int) -> list[Path]:
    try:
        entries = sorted(folder.iterdir())
    except OSError as error:
        raise InputError(f"Cannot read {folder}.", why=f"{error.strerror}.") from error
    files = [entry for entry in entries if entry.is_file()]
    for entry in entries:
        deeper = depth > 0 and entry.is_dir() and not entry.is_symlink()
        if deeper and not entry.name.startswith(".") and len(files) < MOST_FILES:
            files += _walk_folder(entry, depth - 1)
    return files[:MOST_FILES]


def _without_twins(files: Iterable[Path]) -> list[Path]:
    """Of a trace both packed and unpacked, only the unpacked one; of a profile that JAX also
    exported for a viewer, only the profile."""
    listed = list(files)
    names = {str(file) for file in listed}
    return [
        file
        for file in listed
        if file.suffix != ".gz"
        or (str(file)[: -len(".gz")] not in names and f"{_stem(file)}.xplane.pb" not in names)
    ]


def _stem(file: Path) -> str:
    return str(file).removesuffix(".trace.json.gz")


def _has_known_name(name: str, importers: Sequence[Importer]) -> bool:
    endings = tuple(
        ending for importer in (*importers, *own_importers()) for ending in importer.SUFFIXES
    )
    return bool(_NAMES.search(name)) or name.lower().endswith(endings)


def _is_trace(file: Path, member: str | None, importers: Sequence[Importer]) -> bool:
    if find_importer(file, member, importers) is not None:
        return True
    try:
        head = head_of(file, member)
    except InputError:
        return False
    return kineto.sniff(head) or bool(head and _SURELY.search(member or file.name))


def _in_zip(path: Path, importers: Sequence[Importer]) -> list[Origin]:
    members = _zip_members(path, importers)
    if members:
        return sorted(members, key=_sort_key)
    names = _zip_names(path)
    checkpoint = any(name.endswith("data.pkl") for name in names)
    content = f"It holds {_describe_folder(names)}."
    raise NotATraceError(
        f"There is no recording in {path}.",
        why="It looks like a PyTorch checkpoint." if checkpoint else content,
        hint="Pass a zip of the traces that the profiler exported.",
    )


def _zip_names(path: Path) -> list[str]:
    try:
        with zipfile.ZipFile(path) as archive:
            return [info.filename for info in archive.infolist() if not info.is_dir()]
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise InputError(
            f"Cannot read {path}.", why=f"The zip is damaged: {error}.", hint="Copy it again."
        ) from error


def _zip_members(path: Path, importers: Sequence[Importer]) -> list[Origin]:
    names = [name for name in _zip_names(path)[:MOST_FILES] if not name.startswith("__MACOSX/")]
    named = (name for name in names if _has_known_name(name, importers))
    return [(path, name) for name in named if _is_trace(path, name, importers)]


def _describe_folder(names: Iterable[str]) -> str:
    listed = list(names)
    if not listed:
        return "no files"
    shown, more = ", ".join(listed[:5]), len(listed) - 5
    return f"{shown} and {more} more file{'s' * (more > 1)}" if more > 0 else shown


def _sort_key(origin: Origin) -> tuple[int, list[tuple[int, str]]]:
    """By rank if names contain it, then by name with numbers in natural order."""
    path, member = origin
    text = f"{path}/{member or ''}"
    rank, _ = rank_in_names((*path.parts[-3:], *(member or "").split("/")))
    parts = re.findall(r"\d{1,18}|\D+", text)
    natural = [(int(part), "") if part.isdigit() else (-1, part) for part in parts]
    return (1 << 31 if rank is None else rank), natural
