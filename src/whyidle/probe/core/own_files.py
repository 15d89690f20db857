"""Whose a file is: the probe's own, which stacks and tracebacks leave out, a library's, or the
job's."""

from __future__ import annotations

import functools
import os
import sys

FOLDER = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
"""the folder of the whole probe, with a separator at its end"""
INSTALLED = ("site-packages", "dist-packages", "lib/python3")
"""in names of files that readers know as a library's without a mark"""
REPOSITORY = (".git", ".hg")


@functools.lru_cache(maxsize=4096)
def name_file(file: str) -> str:
    """Return a file's name for stacks. A file outside the job's folders is a library's, wherever it
    lies: a double separator stands before its package, as in ``/opt/lib//package/module.py``."""
    known = any(part in file for part in INSTALLED)
    if (
        known
        or file.startswith(job_folders())
        or not (os.path.isabs(file) and os.path.isfile(file))
    ):
        return file
    folder, name = os.path.split(file)
    while os.path.isfile(os.path.join(folder, "__init__.py")):
        folder, package = os.path.split(folder)
        name = os.path.join(package, name)
    return f"{folder.rstrip(os.sep)}{os.sep}{os.sep}{name}"


@functools.lru_cache(maxsize=1)
def job_folders() -> tuple[str, ...]:
    """Return the folders of the script and of the work, or the repositories that hold them, with a
    separator at their ends."""
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    given = os.path.abspath(script) if script else ""
    starts = [
        os.getcwd(),
        *(os.path.dirname(path) for path in {given, os.path.realpath(given)} if given),
    ]
    return tuple({os.path.join(_repository_of(folder), "") for folder in starts})


def _repository_of(folder: str) -> str:
    """Return the root of the repository around a folder; the folder if there is none."""
    above = folder
    while not any(os.path.exists(os.path.join(above, name)) for name in REPOSITORY):
        above, before = os.path.dirname(above), above
        if above == before:
            return folder
    return above
