"""A folder in which a command runs with a patch, so that what is handed over has been run once.

The user's tree is mirrored: folders that hold files of the program are made anew, with copies of
those files, patched or not; what else is in them is a link to where it is, or a small folder of
links (`_links`), and a link of the user's into the tree leads into the mirror. So the program finds
its data and its other modules where it expects them, imports the patched files, may remove and make
its folders, and what it writes goes where it would have gone: whoever runs it sees to that, as in
every trial.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from whyidle.engine.patching.mirror_links import MirrorLinks
from whyidle.engine.patching.source_patch import SourcePatch

RMTREE = "Cannot call rmtree on a symbolic link"
"""what Python says, and names no folder"""
NO_FOLDER = ("Not a directory", "File exists")
QUOTED = re.compile(r"['‘]([^'’]+)['’]")


@dataclass(frozen=True, slots=True)
class PatchedCommand:
    """How to run the command with the patch: its words, its folder, and the variables that stand
    in for those of the environment. ``links`` stand for folders of the user's."""

    command: tuple[str, ...]
    folder: Path
    environment: Mapping[str, str]
    links: frozenset[Path] = frozenset()

    def failed_on_link(self, said: str) -> bool:
        """Whether an error in what it printed comes of a folder that is a link here."""
        if RMTREE in said:
            return bool(self.links)
        lines = (line for line in said.splitlines() if any(each in line for each in NO_FOLDER))
        places = (self.folder / name for line in lines for name in QUOTED.findall(line))
        return any(Path(os.path.realpath(each.parent)) / each.name in self.links for each in places)


def make_mirror(
    patch: SourcePatch, command: Sequence[str], folder: Path, scratch: Path
) -> PatchedCommand:
    """Make the mirror in ``scratch``, an empty folder, for a command that starts in ``folder``.

    Raises:
        OSError: the mirror cannot be made (a full disk, a file system without links).
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
    """The folders in which links stand that names of files go through."""
    for name in names:
        for part in (name, *name.parents):
            if part.is_symlink():
                yield part.parent.resolve()


def _map_word(word: str, root: Path, scratch: Path) -> str:
    """A word that names a file of the tree by its whole path names the copy."""
    path = Path(word)
    if not path.is_absolute() or not word.endswith(".py"):
        return word
    for named in (path.parent.resolve() / path.name, path.resolve()):
        if named.is_relative_to(root) and (scratch / named.relative_to(root)).exists():
            return str(scratch / named.relative_to(root))
    return word


def _mirror_environment(patch: SourcePatch, scratch: Path) -> dict[str, str]:
    """The copies of folders that modules are found in come first, for an installation in
    development, or a whole path in the environment, names the originals."""
    root, script = patch.diff_root, patch.own.script
    beside = script.parent if script is not None else None
    inside = [path for path in patch.own.folders if path.is_relative_to(root) and path != beside]
    ahead = [str(scratch / path.relative_to(root)) for path in inside]
    before = os.environ.get("PYTHONPATH")
    return {"PYTHONPATH": os.pathsep.join([*ahead, *([before] if before else [])])}
