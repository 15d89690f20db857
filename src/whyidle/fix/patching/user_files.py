"""Finds the user's own files of a command: the script, and its imports from the same tree, without
installed packages and the standard library.
"""

from __future__ import annotations

import ast
import os
import shlex
import sys
import sysconfig
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

INSTALLED = {"site-packages", "dist-packages"}
ENVIRONMENT = {"bin", "etc", "include", "lib", "lib64", "share", "Include", "Lib", "Scripts"}
"""folders of a virtual environment, which may share its folder with a project"""


@dataclass(frozen=True, slots=True)
class UserFiles:
    """The user's files of a command."""

    root: Path  # top of the repository, or else the working folder
    files: tuple[Path, ...]
    script: Path | None
    options: tuple[str, ...]  # words of the command after the script
    folders: tuple[Path, ...]  # folders from which its modules are imported
    names: tuple[Path, ...] = ()  # unresolved paths of the files, which may contain links


def own_files(command: Sequence[str], folder: Path, named: Iterable[str] = ()) -> UserFiles:
    """Find the user's files of a command with the working folder ``folder``. ``named``: further
    files that are part of it, relative to the folder or absolute."""
    folder = folder.resolve()
    root = find_repository(folder) or folder
    script, options = script_of(command, folder)
    start = [script] if script is not None else []
    usual = [folder, *_python_path(folder), folder / "src", root, root / "src"]
    folders = list(dict.fromkeys([*(path.resolve().parent for path in start), *usual]))
    start += [path for name in (*named, *options) if (path := (folder / name)).suffix == ".py"]
    found: dict[Path, None] = {}
    names: dict[Path, None] = {}
    searched: set[Path] = set()
    waiting = list(start)
    # the script first, then its imports
    while waiting and len(found) < 500:
        name = waiting.pop(0)
        path = name.resolve()
        if name in names or not is_own(path, root):
            continue
        names[name] = None
        if path in found:
            continue
        found[path] = None
        for other, searched_in in _imported_files(path, folders):
            waiting.append(other)
            searched |= {searched_in} if is_own(other.resolve(), root) else set()
    own_script = script.resolve() if script is not None and script.resolve() in found else None
    used = tuple(each for each in folders if each in searched)
    return UserFiles(root, tuple(found), own_script, options, used, tuple(names))


def find_repository(folder: Path) -> Path | None:
    """The top of the git repository of a folder."""
    return next((above for above in (folder, *folder.parents) if (above / ".git").exists()), None)


def is_own(path: Path, root: Path) -> bool:
    """Whether a file belongs to the user's tree, and not to a virtual environment in it."""
    if not _is_file(path) or not path.is_relative_to(root):
        return False
    inside = path.relative_to(root)
    environment = any(
        (root / above / "pyvenv.cfg").exists() and inside.relative_to(above).parts[0] in ENVIRONMENT
        for above in inside.parents
    )
    library = Path(sysconfig.get_paths()["stdlib"]).resolve()
    return (
        not INSTALLED & set(inside.parts) and not environment and not path.is_relative_to(library)
    )


def script_of(command: Sequence[str], folder: Path) -> tuple[Path | None, tuple[str, ...]]:
    """Find the script of a command and the words after it: the first word that is a Python file, or
    the first module after ``-m`` in the user's tree. A word that is a shell command (``bash -c
    "..."``) is split."""
    command = [part for word in command for part in _split_shell_words(word, folder)]
    for at, word in enumerate(command):
        if word.endswith(".py") and _is_file(folder / word):
            return folder / word, tuple(command[at + 1 :])
        if word in ("-m", "--module") and at + 1 < len(command):
            found = _module_file(
                command[at + 1].split("."), [folder, *_python_path(folder), folder / "src"]
            )
            if found is not None:
                return found, tuple(command[at + 2 :])
    return None, ()


def _split_shell_words(word: str, folder: Path) -> list[str]:
    if " " not in word or _is_file(folder / word):
        return [word]
    try:
        return shlex.split(word, comments=True)
    except ValueError:
        return [word]


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a word that is too long for a file name
        return False


def _python_path(folder: Path) -> list[Path]:
    entries = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return [folder / each for each in entries if each]


def _module_file(parts: Sequence[str], folders: Iterable[Path]) -> Path | None:
    """The file of a module; of a package ``__main__``, else ``__init__``."""
    for folder in folders:
        base = folder.joinpath(*parts)
        for path in (base.with_suffix(".py"), base / "__main__.py", base / "__init__.py"):
            if path.is_file():
                return path
    return None


def _imported_files(path: Path, folders: Sequence[Path]) -> Iterator[tuple[Path, Path]]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # warnings about the user's own lines
            tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, OSError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            where = list(folders)
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            names = [base, *(f"{base}.{alias.name}".strip(".") for alias in node.names)]
            where = [path.parents[node.level - 1]] if node.level else list(folders)
        else:
            continue
        for name in filter(None, names):
            if name.partition(".")[0] not in sys.stdlib_module_names or where != list(folders):
                yield from _module_files(name.split("."), where)


def _module_files(parts: list[str], folders: Iterable[Path]) -> Iterator[tuple[Path, Path]]:
    """A module's file, preceded by those of the packages that contain it."""
    for folder in folders:
        base = folder.joinpath(*parts)
        found = [path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()]
        if found:
            above = [folder.joinpath(*parts[:n]) / "__init__.py" for n in range(1, len(parts))]
            yield from ((path, folder) for path in (*above, found[0]) if path.is_file())
            return
