"""The files of a command that are its user's own: the script, and what it imports from the same
tree. Never what is installed, never Python's own.
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
"""what an environment holds of its own; some people keep their project beside it, in its folder"""
MOST_FILES = 500
"""beyond so many the rest is not read; the script comes first, then what it imports"""


@dataclass(frozen=True, slots=True)
class UserFiles:
    """``root`` is the top of the user's repository, or else the working directory. ``options`` are
    the command's words behind the script."""

    root: Path
    files: tuple[Path, ...]
    script: Path | None
    options: tuple[str, ...]
    folders: tuple[Path, ...]
    """where modules of it were found, as they are looked for"""
    names: tuple[Path, ...] = ()
    """what the program calls its files: there may be links in them"""


def own_files(command: Sequence[str], folder: Path, named: Iterable[str] = ()) -> UserFiles:
    """What a command that is started in ``folder`` runs of its user's own. ``named`` are files that
    are known to be part of it, from the folder or absolute."""
    folder = folder.resolve()
    root = find_repository(folder) or folder
    script, options = script_of(command, folder)
    folders = _search_script(folder, root, script)
    start = [script] if script is not None else []
    start += [path for name in (*named, *options) if (path := (folder / name)).suffix == ".py"]
    found: dict[Path, None] = {}
    names: dict[Path, None] = {}
    searched: set[Path] = set()
    waiting = list(start)
    while waiting and len(found) < MOST_FILES:
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
    """The top of the git repository that a folder lies in."""
    return next((above for above in (folder, *folder.parents) if (above / ".git").exists()), None)


def is_own(path: Path, root: Path) -> bool:
    """Whether a file belongs to the user's tree, not to an environment that lies in it."""
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
    """The script that a command runs, through launchers, and the words behind it: the first word
    that is a file of Python, or the first module behind ``-m`` that lies in the user's tree. A word
    that is a whole command (``bash -c "..."``) is read as one."""
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
    """The words of a word that is a line for a shell."""
    if " " not in word or _is_file(folder / word):
        return [word]
    try:
        return shlex.split(word, comments=True)
    except ValueError:
        return [word]


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # a word that is too long for a name
        return False


def _python_path(folder: Path) -> list[Path]:
    told = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return [folder / each for each in told if each]


def _search_script(folder: Path, root: Path, script: Path | None) -> list[Path]:
    beside = [script.resolve().parent] if script is not None else []
    usual = [folder, *_python_path(folder), folder / "src", root, root / "src"]
    return list(dict.fromkeys([*beside, *usual]))


def _module_file(parts: Sequence[str], folders: Iterable[Path]) -> Path | None:
    """The file of a module: a package's is its ``__main__``, else its ``__init__``."""
    for folder in folders:
        base = folder.joinpath(*parts)
        for path in (base.with_suffix(".py"), base / "__main__.py", base / "__init__.py"):
            if path.is_file():
                return path
    return None


def _imported_files(path: Path, folders: Sequence[Path]) -> Iterator[tuple[Path, Path]]:
    """Files that a file's import statements may mean, each with the folder it was found from."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what the compiler thinks of the user's own lines
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
    """A module's file, and those of the packages around it, which are imported first."""
    for folder in folders:
        base = folder.joinpath(*parts)
        found = [path for path in (base.with_suffix(".py"), base / "__init__.py") if path.is_file()]
        if found:
            above = [folder.joinpath(*parts[:n]) / "__init__.py" for n in range(1, len(parts))]
            yield from ((path, folder) for path in (*above, found[0]) if path.is_file())
            return
