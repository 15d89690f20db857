"""Forms of prepared data: how samples lie in the files. One form per file.

A form is a module with ``SUFFIX`` (of its files), ``NATIVE`` (how other libraries read the files,
with ``{folder}``), and

* ``write_samples(path, samples)``, which writes one shard;
* ``Reader(path, count)``, whose ``reader[i]`` is the sample as it was, byte for byte.

Samples with parts that a form's own readers can use are split by ``sample_rows``.
"""

from __future__ import annotations

import importlib
from typing import Any


def load_form(name: str) -> Any:
    """The module of a form."""
    return importlib.import_module(f".{name}", __package__)
