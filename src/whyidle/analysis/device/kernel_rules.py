"""The table of kernel names, ``kernel_rules.tsv``: one rule a line, with a name that it must match
and one that it must not."""

from __future__ import annotations

from importlib.resources import files
from typing import NamedTuple


class KernelRule(NamedTuple):
    """Kernels whose names match ``pattern``, in any case, belong to ``group``."""

    group: str
    pattern: str
    matches: str
    avoids: str


def read_kernel_rules() -> tuple[KernelRule, ...]:
    """Return all rules; the first that matches a name decides."""
    table = files(__package__).joinpath("kernel_rules.tsv").read_text("utf-8")
    rows = (line.split("\t") for line in table.splitlines() if line and line[0] != "#")
    return tuple(KernelRule(*row) for row in rows)
