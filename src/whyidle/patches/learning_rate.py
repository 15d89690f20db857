"""A learning rate that goes with larger batches, where the optimizer is made.

The rules are those of the knob in a running job: linear for SGD (Goyal et al., 2017), by the square
root for optimizers that divide by the size of past gradients (Malladi et al., 2022).
"""

from __future__ import annotations

import re

import libcst as cst

from whyidle.model.patch import Change, Rewrite, source_form
from whyidle.patches._factor import has, multiply, number
from whyidle.patches._keyword import Keyword, argument
from whyidle.patches._loaders import BATCH_SIZE, DATA_LOADER
from whyidle.patches._setter import Edits
from whyidle.patches._source import Source, source_of

LINEAR = {"SGD": 1e-3, "ASGD": 1e-2}
ROOT = {
    "Adam": 1e-3, "AdamW": 1e-3, "NAdam": 2e-3, "RAdam": 1e-3, "Adamax": 2e-3, "SparseAdam": 1e-3,
    "RMSprop": 1e-2, "Adagrad": 1e-2,
}  # fmt: skip
"""optimizers of PyTorch by the rule that holds for them, with the learning rate that they have
where nothing is said"""
ABSOLUTE = ("OneCycleLR", "CyclicLR")
"""schedules with learning rates of their own, which a scaled one would not reach"""
OWN = re.compile(r"""\[\s*["']lr["']\s*\]\s*=[^=]""")
"""a rate that the script sets itself"""
TELLS = re.compile(r"log(_\w+)?|add_scalars?|set_postfix|print|info|debug|write|save|dumps?")
"""functions that a rate is given to, to be read later"""


@source_form("optimizer.scale_learning_rate")
def learning_rate(text: str, change: Change) -> Rewrite:
    """The optimizers of a file whose loaders have larger batches already; where the script sets
    rates in other ways, too, they are left to a person."""
    times = change.beside.get("loader.batch_size_times")
    if not change.value or "optim" not in text or not isinstance(times, int | float):
        return Rewrite(text)
    source, edits = source_of(text), Edits()
    calls = [
        (call, rate, root)
        for root, rates in enumerate((LINEAR, ROOT))
        for name, rate in rates.items()
        for call in source.calls((f"torch.optim.{name}", f"torch.optim.{name.lower()}.{name}"))
    ]
    reason = _reason(source, number(times)) if calls else ""
    for call, rate, root in calls:
        if reason:
            edits.why.append(f"line {source.line(call)} makes an optimizer, and {reason}")
        else:
            factor = _root(times) if root else number(times)
            multiply(source, edits, call, Keyword("lr", rate, position=1), factor)
    return edits.rewrite(source)


def _root(times: float) -> str:
    """The square root, as a number where it is a whole one."""
    root = times**0.5
    return number(root) if root == int(root) else f"{number(times)}**0.5"


def _reason(source: Source, factor: str) -> str:
    """Why rates of this file are left alone; empty where they are not."""
    sizes = (argument(call, BATCH_SIZE) for call in source.calls(DATA_LOADER))
    if not any(size is not None and has(source, size, factor) for size in sizes):
        return "no loader of this file has larger batches"
    if OWN.search(source.text) or _of_groups(source):
        return "the file sets learning rates in other places, too"
    schedule = next((name for name in ABSOLUTE if _made(source, name)), "")
    return f"{schedule} has rates of its own" if schedule else ""


def _of_groups(source: Source) -> bool:
    """Whether a dictionary has a rate, as groups of parameters do, that is not told only."""
    named = (each for each in source.every(cst.DictElement) if source.literal(each.key) == "lr")
    return any(not _told(source, each) for each in named)


def _told(source: Source, node: cst.CSTNode) -> bool:
    call = source.around(node, cst.Call)
    name = source.code(call.func).rpartition(".")[2] if isinstance(call, cst.Call) else ""
    return TELLS.fullmatch(name) is not None


def _made(source: Source, name: str) -> list[cst.Call]:
    return source.calls((f"torch.optim.lr_scheduler.{name}",))
