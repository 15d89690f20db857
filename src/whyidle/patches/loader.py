"""Keywords of ``DataLoader(...)``."""

from __future__ import annotations

import libcst as cst

from whyidle.model.knobs import Setting, as_python
from whyidle.model.patch import Change, Rewrite, source_form
from whyidle.patches._keyword import Keyword, argument, current, meant
from whyidle.patches._loaders import DATA_LOADER
from whyidle.patches._setter import Setter
from whyidle.patches._source import NO_LITERAL, Source, source_of

WORKERS = Keyword("num_workers", 0, position=5)
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
"""what is refused without workers -> what to write where their number depends on the run"""


@source_form(*KEYWORDS)
def loader(text: str, change: Change) -> Rewrite:
    """The loaders that the finding's lines mean, else all that have the old value."""
    if "DataLoader" not in text:
        return Rewrite(text)
    source = source_of(text)
    keyword = KEYWORDS[change.knob]
    calls = meant(source, source.calls(DATA_LOADER), keyword, change)
    setter = Setter(source, keyword, change)
    if change.knob not in NEED_WORKERS or not change.value:
        return setter.set(setter.tried(calls))
    guarded = NEED_WORKERS[change.knob]
    served = [call for call in calls if _served(source, call, change)]
    if calls and not served:
        line = source.line(calls[0])
        return Rewrite(text, why=(f"line {line} makes a DataLoader without workers",))
    tried = setter.tried(served)
    return setter.set(tried, lambda call: _guarded(source, call, guarded, change.value))


def _served(source: Source, call: cst.Call, change: Change) -> bool:
    """Whether a loader has workers, or may have them: as many as the same fix sets, if it does."""
    workers = current(source, call, WORKERS, change.options)
    given = change.beside.get("loader.workers")
    if given is not None and workers is not NO_LITERAL:
        return bool(workers == given)
    return workers != 0 or _varies(source, call)


def _varies(source: Source, call: cst.Call) -> bool:
    value = argument(call, WORKERS)
    return value is not None and source.literal(value) is NO_LITERAL


def _guarded(source: Source, call: cst.Call, code: str, value: Setting) -> str:
    workers = argument(call, WORKERS)
    if workers is None or source.literal(workers) is not NO_LITERAL:
        return as_python(value)
    text = source.code(workers)
    plain = isinstance(workers, (cst.Name, cst.Attribute, cst.Call, cst.Subscript)) or workers.lpar
    return code.format(text if plain else f"({text})", as_python(value))
