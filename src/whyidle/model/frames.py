"""Tells the user's code from libraries by the file of a stack frame.

A profiler strips ``sys.path`` entries, so that a library's path starts with its name. A watched
process records whole paths: a library is in a folder of installed packages, or outside the folders
of the job, which the probe marks by a double separator before its package. A checkout inside them
is recognised by its subfolders (``~/lightning`` may be the user's own).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

INSTALLED: Final = r"(?:(?:^|;)|(?:site|dist)-packages/|//)"
"""text before the name of an installed library"""
FOREIGN: Final = r"(?:site|dist)-packages/|lib/python3|//|^<"
"""matches files that are not the user's"""
TORCH: Final = (
    rf"(?:{INSTALLED}torch/|/torch/(?=_|(?:amp|autograd|backends|cuda|distributed|fx|jit|nn|optim)/"
    r"|utils/(?:data/|checkpoint\.py|_|tensorboard/)|(?:functional|overrides|serialization)\.py))"
)
"""the framework's folder, installed or in a checkout"""
CHECKED_OUT: Final = (
    rf"{TORCH}|/(?:torchvision/(?:datasets|io|models|transforms)/|lightning/(?:fabric|pytorch)/"
    r"|pytorch_lightning/|transformers/(?:models|generation)/|transformers/trainer|numpy/(?:_?core|"
    r"lib|random)/)"
)
"""libraries in a checkout"""
_FILE: Final = re.compile(r"([^;()]+\.py)\(\d+\): ")
_LIBRARY: Final = re.compile(FOREIGN)


def own_files(stacks: Iterable[str]) -> list[str]:
    """The user's files that stacks name, in order of first occurrence."""
    names = dict.fromkeys(name for stack in stacks for name in _FILE.findall(stack))
    return [name for name in names if not _LIBRARY.search(name)]
