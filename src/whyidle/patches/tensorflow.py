"""Keywords of TensorFlow and Keras: of ``map``, of ``compile``, and of datasets."""

from __future__ import annotations

import libcst as cst

from whyidle.model.patch import KnobChange, Rewrite, source_form
from whyidle.patches._keyword_argument import Keyword
from whyidle.patches._keyword_setter import KeywordSetter
from whyidle.patches._source_tree import SourceTree, source_of

METHODS = {
    "tfdata.map_calls": ("map", Keyword("num_parallel_calls", None, position=1)),
    "keras.steps_per_execution": ("compile", Keyword("steps_per_execution", 1)),
    "model.compile": ("compile", Keyword("jit_compile", False)),
}
"""knob -> the method that takes it, and its keyword"""
OF_MODELS = frozenset({"optimizer", "loss", "metrics"})
"""keywords that only the ``compile`` of a model takes"""
DATASETS = frozenset(
    f"{module}.utils.{name}"
    for module in ("keras", "tensorflow.keras", "tf_keras")
    for name in ("PyDataset", "Sequence")
)
WORKERS = Keyword("workers", 1)


@source_form(*METHODS, "keras.workers")
def tensorflow(text: str, change: KnobChange) -> Rewrite:
    """The maps and models at lines that trials changed or the finding names, else all that are
    certainly of tf.data or Keras; every class of datasets of the job's own, where it calls the
    constructor of Keras' class, or is made with arguments for that."""
    if not ("tensorflow" in text or "keras" in text):
        return Rewrite(text)
    source = source_of(text)
    if change.knob == "keras.workers":
        return _set_workers(source, change)
    method, keyword = METHODS[change.knob]
    setter = KeywordSetter(source, keyword, change)
    calls = [
        call
        for call in source.all_nodes(cst.Call)
        if isinstance(call.func, cst.Attribute) and call.func.attr.value == method
    ]
    of_models = method == "compile"
    named = {*(() if of_models else change.lines), *(change.made or {})}
    meant = [
        call
        for call in calls
        if named & set(source.lines_of(call))
        or (not named and (_is_model(call) if of_models else _is_dataset(source, call)))
    ]
    return setter.set_keyword(setter.tried_calls(meant))


def _set_workers(source: SourceTree, change: KnobChange) -> Rewrite:
    setter = KeywordSetter(source, WORKERS, change)
    calls: list[cst.Call] = []
    for kind in source.all_nodes(cst.ClassDef):
        if any(source.qualified_names(base.value) & DATASETS for base in kind.bases):
            inner = source.nodes_inside(cst.Call, kind)
            own = [call for call in inner if source.code_of(call.func) == "super().__init__"]
            passed_on = any(arg.star == "**" for call in own for arg in call.args)
            everywhere = source.all_nodes(cst.Call)
            made = [call for call in everywhere if source.code_of(call.func) == kind.name.value]
            calls += made if passed_on else own
    return setter.set_keyword(calls)


def _is_model(call: cst.Call) -> bool:
    """Whether a ``compile`` is certainly a model's, by what it is given."""
    return any(arg.keyword is not None and arg.keyword.value in OF_MODELS for arg in call.args)


def _is_dataset(source: SourceTree, call: cst.Call) -> bool:
    """Whether a method is called on what certainly begins with ``tf.data``."""
    node: cst.CSTNode = call
    while isinstance(node, cst.Call | cst.Attribute):
        if any(name.startswith("tensorflow.data.") for name in source.qualified_names(node)):
            return True
        node = node.func if isinstance(node, cst.Call) else node.value
    return False
