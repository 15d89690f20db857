"""Calls that set something of PyTorch for the whole process."""

from __future__ import annotations

import libcst as cst

from whyidle.model.knobs import as_python
from whyidle.model.patch import KnobChange, Rewrite, source_form
from whyidle.patches._keyword_argument import Keyword, matching_calls
from whyidle.patches._keyword_setter import KeywordSetter
from whyidle.patches._source_tree import SourceTree, source_of
from whyidle.patches._statement_edits import after_imports

CALLS = {
    "autograd.anomaly_mode": (
        ("torch.autograd.set_detect_anomaly", "torch.autograd.anomaly_mode.set_detect_anomaly"),
        Keyword("mode", None, position=0),
    ),
    "matmul.precision": (
        ("torch.set_float32_matmul_precision",), Keyword("precision", None, position=0)
    ),
    "torch.num_threads": (("torch.set_num_threads",), Keyword("int", None, position=0)),
}  # fmt: skip
WRITTEN = {
    "matmul.precision": "{{torch}}.set_float32_matmul_precision({0})",
    "torch.num_threads": "{{torch}}.set_num_threads({0})",
}
"""knobs that a line after the imports can set"""
DETECT = ("torch.autograd.detect_anomaly", "torch.autograd.anomaly_mode.detect_anomaly")
TF32 = (
    "torch.backends.cuda.matmul.allow_tf32",
    "torch.backends.cuda.matmul.fp32_precision",
    "torch.backends.fp32_precision",
)


@source_form(*CALLS)
def switches(text: str, change: KnobChange) -> Rewrite:
    """Changes existing calls; without one, inserts a line after the script's imports for knobs that
    need it."""
    names, keyword = CALLS[change.knob]
    words = [name.rpartition(".")[2] for name in (*names, *DETECT, *TF32)]
    if not change.insert and not any(word in text for word in words):
        return Rewrite(text)
    source = source_of(text)
    setter = KeywordSetter(source, keyword, change)
    calls = source.calls_of(names)
    if change.knob == "autograd.anomaly_mode":
        _edit_contexts(source, setter)
    if change.knob == "matmul.precision":
        _edit_assignments(source, setter)
    if not calls and change.insert and change.knob in WRITTEN and not setter.edits.why:
        found = after_imports(source, WRITTEN[change.knob].format(as_python(change.value)))
        if found is not None:
            setter.edits.changes[found[0]] = found[1]
            setter.edits.done = True
    return setter.set_keyword(matching_calls(source, calls, keyword, change))


def _edit_contexts(source: SourceTree, setter: KeywordSetter) -> None:
    """``with detect_anomaly():`` turns the mode on with any argument."""
    for call in source.calls_of(DETECT):
        if isinstance(call.func, cst.Attribute):
            module = source.code_of(call.func.value)
            setter.edits.replace_expression(call, f"{module}.set_detect_anomaly(False)")
        else:
            setter.leave_call(call, "turns the mode on")


def _edit_assignments(source: SourceTree, setter: KeywordSetter) -> None:
    """The older switch takes effect as well, if it comes later."""
    for target in source.all_nodes(cst.AssignTarget):
        if found := sorted(source.set_by(target.target) & set(TF32)):
            setter.leave_call(target, f"also sets {found[0]}")
