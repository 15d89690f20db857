"""``need_weights=False`` where nobody looks at the weights that attention returns."""

from __future__ import annotations

import libcst as cst

from whyidle.model.patch import Change, Rewrite, source_form
from whyidle.patches._keyword import Keyword, current
from whyidle.patches._setter import Setter
from whyidle.patches._source import Source, source_of

MADE = ("torch.nn.MultiheadAttention", "torch.nn.modules.activation.MultiheadAttention")
WEIGHTS = Keyword("need_weights", True, 4)
_Name = tuple["cst.CSTNode | None", str]


@source_form("model.attention")
def attention(text: str, change: Change) -> Rewrite:
    """Calls of what is set to an ``nn.MultiheadAttention``, of whose result only the first is
    looked at."""
    if change.value != "sdpa" or "MultiheadAttention" not in text:
        return Rewrite(text)
    source = source_of(text)
    setter = Setter(source, WEIGHTS, Change(change.knob, False, lines=change.lines))
    free = []
    for call in _calls(source):
        if current(source, call, WEIGHTS) is False:
            setter.edits.done = True
        elif _first_only(source, call):
            free.append(call)
        else:
            setter.leave(call, "may look at the weights")
    return setter.set(free)


def _calls(source: Source) -> list[cst.Call]:
    """``self.attend(...)``, where nothing but ``nn.MultiheadAttention(...)`` is ever in it."""
    made, names = set(source.calls(MADE)), dict[_Name, bool]()
    for statement in source.every(cst.Assign):
        for target in statement.targets:
            name = _name(source, target.target)
            names[name] = names.get(name, True) and statement.value in made
    return [call for call in source.every(cst.Call) if names.get(_name(source, call.func))]


def _name(source: Source, node: cst.BaseExpression) -> _Name:
    """An object's own name belongs to its class, another one to its function."""
    kind = cst.ClassDef if isinstance(node, cst.Attribute) else cst.FunctionDef
    return source.around(node, kind), source.code(node)


def _first_only(source: Source, call: cst.Call) -> bool:
    """``attend(...)[0]``, or ``x, _ = attend(...)`` in a function where nothing reads ``_``."""
    around = source.parent(call)
    if isinstance(around, cst.Subscript):
        element = around.slice[0].slice
        return isinstance(element, cst.Index) and source.literal(element.value) == 0
    if not isinstance(around, cst.Assign) or len(around.targets) != 1:
        return False
    pair = around.targets[0].target
    if not isinstance(pair, cst.Tuple) or len(pair.elements) != 2:
        return False
    second = pair.elements[1].value
    scope = source.around(call, cst.FunctionDef) or source.module
    return isinstance(second, cst.Name) and not any(
        name is not second and name.value == second.value for name in source.inside(cst.Name, scope)
    )
