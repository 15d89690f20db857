"""Keywords of ``DataLoader(...)``."""

from __future__ import annotations

import libcst as cst

from whyidle.model.knobs import Setting, as_python
from whyidle.model.patch import KnobChange, Rewrite, source_form
from whyidle.patches._keyword_argument import Keyword, argument_value, current_value, matching_calls
from whyidle.patches._keyword_setter import KeywordSetter
from whyidle.patches._source_tree import NO_LITERAL, SourceTree, source_of

WORKERS = Keyword("num_workers", 0, position=5)
DATA_LOADER = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")
KEYWORDS = {
    "loader.workers": WORKERS,
    "loader.pin_memory": Keyword("pin_memory", False, position=7),
    "loader.persistent_workers": Keyword("persistent_workers", False),
    "loader.prefetch_factor": Keyword("prefetch_factor", None),
}
NEED_WORKERS = {
    "loader.persistent_workers": "{0} > 0",
    "loader.prefetch_factor": "{1} if {0} else None",
}
"""keywords that are invalid without workers -> what to write where the run decides their number"""


@source_form(*KEYWORDS)
def loader(text: str, change: KnobChange) -> Rewrite:
    """The loaders at the finding's lines, else all with the old value."""
    if "DataLoader" not in text:
        return Rewrite(text)
    source = source_of(text)
    keyword = KEYWORDS[change.knob]
    calls = matching_calls(source, source.calls_of(DATA_LOADER), keyword, change)
    setter = KeywordSetter(source, keyword, change)
    if change.knob not in NEED_WORKERS or not change.value:
        return setter.set_keyword(setter.tried_calls(calls))
    guarded = NEED_WORKERS[change.knob]
    served = [call for call in calls if _has_workers(source, call, change)]
    if calls and not served:
        line = source.line_of(calls[0])
        return Rewrite(text, why=(f"line {line} makes a DataLoader without workers",))
    tried = setter.tried_calls(served)
    return setter.set_keyword(tried, lambda call: _guard_value(source, call, guarded, change.value))


def _has_workers(source: SourceTree, call: cst.Call, change: KnobChange) -> bool:
    """Whether a loader has or may have workers; if the same fix sets their number, that many."""
    workers = current_value(source, call, WORKERS, change.options)
    given = change.beside.get("loader.workers")
    if given is not None and workers is not NO_LITERAL:
        return bool(workers == given)
    value = argument_value(call, WORKERS)
    varies = value is not None and source.literal_value(value) is NO_LITERAL
    return workers != 0 or varies


def _guard_value(source: SourceTree, call: cst.Call, code: str, value: Setting) -> str:
    workers = argument_value(call, WORKERS)
    if workers is None or source.literal_value(workers) is not NO_LITERAL:
        return as_python(value)
    text = source.code_of(workers)
    plain = isinstance(workers, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)) or workers.lpar
    return code.format(text if plain else f"({text})", as_python(value))
