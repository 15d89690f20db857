"""A learning rate scaled with the batch size, where the optimizer is created.

The rules are those of the knob in a running job: linear for SGD (Goyal et al., 2017), by the square
root for optimizers that divide by the size of past gradients (Malladi et al., 2022).
"""

from __future__ import annotations

import re

import libcst as cst

from whyidle.model.patch import KnobChange, Rewrite, source_form
from whyidle.patches._keyword_argument import Keyword, argument_value
from whyidle.patches._keyword_setter import FileEdits
from whyidle.patches._loader_arguments import BATCH_SIZE, DATA_LOADER
from whyidle.patches._multiplied_values import format_factor, is_multiplied, multiply_argument
from whyidle.patches._source_tree import SourceTree, source_of

LINEAR = {"SGD": 1e-3, "ASGD": 1e-2}
ROOT = {
    "Adam": 1e-3, "AdamW": 1e-3, "NAdam": 2e-3, "RAdam": 1e-3, "Adamax": 2e-3, "SparseAdam": 1e-3,
    "RMSprop": 1e-2, "Adagrad": 1e-2,
}  # fmt: skip
"""optimizers of PyTorch by their rule, with their default learning rate"""
ABSOLUTE = ("OneCycleLR", "CyclicLR")
"""schedules with their own learning rates, which do not follow a scaled one"""
OWN = re.compile(r"""\[\s*["']lr["']\s*\]\s*=[^=]""")
"""a learning rate that the script sets itself"""
REPORTS = re.compile(r"log(_\w+)?|add_scalars?|set_postfix|print|info|debug|write|save|dumps?")
"""functions that only report a rate"""


@source_form("optimizer.scale_learning_rate")
def learning_rate(text: str, change: KnobChange) -> Rewrite:
    """The optimizers of a file whose loaders have larger batches already; where the script also
    sets rates in other ways, a person must change them."""
    times = change.beside.get("loader.batch_size_times")
    if not change.value or "optim" not in text or not isinstance(times, int | float):
        return Rewrite(text)
    source, edits = source_of(text), FileEdits()
    calls = [
        (call, rate, root)
        for root, rates in enumerate((LINEAR, ROOT))
        for name, rate in rates.items()
        for call in source.calls_of((f"torch.optim.{name}", f"torch.optim.{name.lower()}.{name}"))
    ]
    reason = _explain_unsuitable(source, format_factor(times)) if calls else ""
    for call, rate, root in calls:
        if reason:
            edits.why.append(f"line {source.line_of(call)} makes an optimizer, and {reason}")
        else:
            factor = _square_root(times) if root else format_factor(times)
            multiply_argument(source, edits, call, Keyword("lr", rate, position=1), factor)
    return edits.rewrite_file(source)


def _square_root(times: float) -> str:
    root = times**0.5
    return format_factor(root) if root == int(root) else f"{format_factor(times)}**0.5"


def _explain_unsuitable(source: SourceTree, factor: str) -> str:
    """Why the rates of this file are not changed; empty if they are."""
    sizes = (argument_value(call, BATCH_SIZE) for call in source.calls_of(DATA_LOADER))
    if not any(size is not None and is_multiplied(source, size, factor) for size in sizes):
        return "no loader of this file has larger batches"
    if OWN.search(source.text) or _has_group_rates(source):
        return "the file sets learning rates in other places, too"
    module = "torch.optim.lr_scheduler"
    schedule = next((name for name in ABSOLUTE if source.calls_of((f"{module}.{name}",))), "")
    return f"{schedule} sets its own rates" if schedule else ""


def _has_group_rates(source: SourceTree) -> bool:
    """Whether a dictionary sets a rate, as parameter groups do, and does not just report it."""
    elements = source.all_nodes(cst.DictElement)
    rates = (element for element in elements if source.literal_value(element.key) == "lr")
    return any(not _is_report(source, rate) for rate in rates)


def _is_report(source: SourceTree, node: cst.CSTNode) -> bool:
    call = source.enclosing_node(node, cst.Call)
    name = source.code_of(call.func).rpartition(".")[2] if isinstance(call, cst.Call) else ""
    return REPORTS.fullmatch(name) is not None
