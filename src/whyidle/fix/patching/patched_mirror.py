"""Mirrors the user's tree with patched files, to check a patch by running it.

Folders that contain files of the program are created with copies of those files, patched or not.
Everything else is a link or a small folder of links (`mirror_links`), and links within the user's
tree lead into the mirror. The program thus finds its data and modules at their usual relative
paths, and imports the patched files. Its writes are isolated as in every trial.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from whyidle.fix.isolation.overlay_folders import MOST_LOOKED_AT
from whyidle.fix.patching.source_patch import SourcePatch

SMALL = 2_000  # most entries, at any depth, of a folder that becomes a real folder
CACHE = "__pycache__"


class MirrorLinks:
    """Fills a mirror of ``root`` in ``scratch``, except for ``made``, paths that are created
    otherwise. ``folders`` are links to folders."""

    def __init__(self, root: Path, scratch: Path, made: Collection[Path]) -> None:
        self._root, self._scratch, self._made = root, scratch, made
        self._left = MOST_LOOKED_AT
        self.folders: list[Path] = []

    def link_folder(self, real: Path) -> None:
        """Link everything in a folder, except for bytecode, which would not match the copies."""
        for entry in _folder_entries(real):
            if Path(entry.path) not in self._made and entry.name != CACHE:
                self._stand_in(entry, small=_is_plain(entry) and self._is_small(entry.path))

    def _stand_in(self, entry: os.DirEntry[str], *, small: bool) -> None:
        path = Path(entry.path)
        copy = self._scratch / path.relative_to(self._root)
        if entry.is_symlink():
            end = Path(os.path.realpath(path))
            inside = end.is_relative_to(self._root)
            copy.symlink_to(self._scratch / end.relative_to(self._root) if inside else path)
        elif small and entry.is_dir():
            copy.mkdir()
            for each in _folder_entries(path):
                self._stand_in(each, small=_is_plain(each))
        else:
            copy.symlink_to(path)
            if entry.is_dir():
                self.folders.append(copy)

    def _is_small(self, folder: str) -> bool:
        waiting, count = [folder], 0
        while waiting:
            try:
                entries = _folder_entries(waiting.pop())
            except OSError:
                return False
            count += len(entries)
            self._left -= len(entries)
            if count > SMALL or self._left < 0:
                return False
            waiting += [each.path for each in entries if _is_plain(each)]
        return True


def _folder_entries(folder: Path | str) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as found:
        return sorted(found, key=lambda entry: entry.name)


def _is_plain(entry: os.DirEntry[str]) -> bool:
    """Whether it is a folder that may become a real folder of links."""
    return (
        entry.is_dir(follow_symlinks=False)
        and not entry.name.startswith(".")
        and entry.name != CACHE
        and not Path(entry.path, "pyvenv.cfg").exists()
    )


RMTREE = "Cannot call rmtree on a symbolic link"  # Python's error, which names no folder
NO_FOLDER = ("Not a directory", "File exists")
QUOTED = re.compile(r"['‘]([^'’]+)['’]")


@dataclass(frozen=True, slots=True)
class PatchedCommand:
    """The command in the mirror; ``links`` are links to the user's folders."""

    command: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str]
    links: frozenset[Path] = frozenset()

    def failed_on_link(self, said: str) -> bool:
        """Whether an error in its output is due to a folder that is a link in the mirror."""
        if RMTREE in said:
            return bool(self.links)
        lines = (line for line in said.splitlines() if any(each in line for each in NO_FOLDER))
        places = (self.folder / name for line in lines for name in QUOTED.findall(line))
        return any(Path(os.path.realpath(each.parent)) / each.name in self.links for each in places)


def make_mirror(
    patch: SourcePatch, command: Sequence[str], folder: Path, scratch: Path
) -> PatchedCommand:
    """Create the mirror in ``scratch``, an empty folder, for a command with the working folder
    ``folder``.

    Raises:
        OSError: the mirror cannot be created (a full disk, a file system without links).
    """
    root, folder, scratch = patch.diff_root, folder.resolve(), scratch.resolve()
    own = patch.own.files
    starts = {folder, *(path.parent for path in own), *_linked_folders(patch.own.names)}
    above = {each for start in starts for each in (start, *start.parents)}
    folders = {each for each in above if each.is_relative_to(root)} | {root}
    for each in sorted(folders):
        (scratch / each.relative_to(root)).mkdir(exist_ok=True)
    links = MirrorLinks(root, scratch, {*folders, *own})
    for each in sorted(folders):
        links.link_folder(each)
    for path in own:
        copy = scratch / path.relative_to(root)
        text = patch.files.get(path)
        copy.write_bytes(path.read_bytes() if text is None else text.encode())
        copy.chmod(path.stat().st_mode | 0o200)
    words = tuple(_map_word(word, root, scratch) for word in command)
    place = scratch / folder.relative_to(root)
    return PatchedCommand(
        words, place, _mirror_environment(patch, scratch), frozenset(links.folders)
    )


def _linked_folders(names: Iterable[Path]) -> Iterator[Path]:
    for name in names:
        for part in (name, *name.parents):
            if part.is_symlink():
                yield part.parent.resolve()


def _map_word(word: str, root: Path, scratch: Path) -> str:
    """Replace an absolute path of a file in the tree by that of its copy."""
    path = Path(word)
    if not path.is_absolute() or not word.endswith(".py"):
        return word
    for named in (path.parent.resolve() / path.name, path.resolve()):
        if named.is_relative_to(root) and (scratch / named.relative_to(root)).exists():
            return str(scratch / named.relative_to(root))
    return word


def _mirror_environment(patch: SourcePatch, scratch: Path) -> dict[str, str]:
    """Put the copies of module folders first on PYTHONPATH, because an editable installation or an
    absolute path names the originals."""
    root, script = patch.diff_root, patch.own.script
    beside = script.parent if script is not None else None
    inside = [path for path in patch.own.folders if path.is_relative_to(root) and path != beside]
    ahead = [str(scratch / path.relative_to(root)) for path in inside]
    before = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join([*ahead, *([before] if before else [])])}
