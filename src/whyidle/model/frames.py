"""Whose code a recorded frame is of, as its file tells.

A profiler cuts from a path what was looked up in ``sys.path``: a library's starts with its name. A
watched process tells whole paths: there a library lies where packages are installed. Elsewhere only
what lies in it tells it from a folder of the user's that is called the same (``~/lightning``).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

INSTALLED: Final = r"(?:(?:^|;)|(?:site|dist)-packages/)"
"""before the name of a library, where it is one"""
FOREIGN: Final = r"(?:site|dist)-packages/|lib/python3|^<"
"""in the file of code that is not the user's, wherever the user's lies"""
TORCH: Final = (
    rf"(?:{INSTALLED}torch/|/torch/(?=_|(?:amp|autograd|backends|cuda|distributed|fx|jit|nn|optim)/"
    r"|utils/(?:data/|checkpoint\.py|_|tensorboard/)|(?:functional|overrides|serialization)\.py))"
)
"""the framework's folder, in a checkout of it, too"""
CHECKED_OUT: Final = (
    rf"{TORCH}|/(?:torchvision/(?:datasets|io|models|transforms)/|lightning/(?:fabric|pytorch)/"
    r"|pytorch_lightning/|transformers/(?:models|generation)/|transformers/trainer|numpy/(?:_?core|"
    r"lib|random)/)"
)
"""what in a whole path is a library's wherever it lies"""
_FILE: Final = re.compile(r"([^;()]+\.py)\(\d+\): ")
_LIBRARY: Final = re.compile(FOREIGN)


def own_files(stacks: Iterable[str]) -> list[str]:
    """The user's own files that stacks name, in the order in which they are first named."""
    names = dict.fromkeys(name for stack in stacks for name in _FILE.findall(stack))
    return [name for name in names if not _LIBRARY.search(name)]
