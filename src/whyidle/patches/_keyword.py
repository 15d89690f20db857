"""Sets a keyword argument of calls: at the call, or where its value comes from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import libcst as cst

from whyidle.model.patch import Change, Rewrite
from whyidle.patches._arguments import with_keyword
from whyidle.patches._origin import given, origin
from whyidle.patches._source import NO_LITERAL, Changes, Source
from whyidle.patches._spread import Spread, spread


@dataclass(frozen=True, slots=True)
class Keyword:
    """One parameter of a function: its place among positional ones (None: by keyword only), and
    what it is where the call says nothing."""

    name: str
    default: Any
    position: int | None = None


@dataclass(slots=True)
class Edits:
    """What is to be changed in one file, and what was left."""

    changes: dict[cst.CSTNode, Callable[[Any], Any]] = field(default_factory=dict)
    done: bool = False
    why: list[str] = field(default_factory=list)

    def replace(self, node: cst.CSTNode, code: str) -> None:
        """Replace an expression, with its parentheses."""
        self.changes[node] = lambda _: cst.parse_expression(code)
        self.done = True

    def rewrite(self, source: Source) -> Rewrite:
        """The file with these changes."""
        changes: Changes = self.changes
        return Rewrite(source.changed(changes), self.done, tuple(self.why))


Code = Callable[[cst.Call], "str | None"]
"""what to write at a call, as an expression; None: leave this call alone"""


@dataclass(slots=True)
class Setter:
    """Sets one keyword at several calls of a file."""

    source: Source
    keyword: Keyword
    change: Change
    edits: Edits = field(default_factory=Edits)

    def set(self, calls: Sequence[cst.Call], code: Code | None = None) -> Rewrite:
        """Set the keyword at each of the calls. ``code`` is asked for each of them where the
        setting itself is not what is to be written."""
        for call in calls:
            wanted = code(call) if code is not None else repr(self.change.value)
            if wanted is not None:
                self._set(call, wanted)
        return self.edits.rewrite(self.source)

    def _set(self, call: cst.Call, code: str) -> None:
        known = spread(self.source, call)
        value = argument(call, self.keyword)
        if value is None and known is None:
            self._leave(call, "takes arguments from elsewhere (`*` or `**`)")
        elif value is not None:
            self._change(call, value, code)
        elif known is not None and self.keyword.name in known.keys:
            self._spread(call, known, code)
        elif len(call.args) == 1 and isinstance(call.args[0].value, cst.GeneratorExp):
            self._leave(call, "takes a bare generator")
        else:
            name = self.keyword.name
            self.edits.changes[call] = lambda new: with_keyword(new, name, code)
            self.edits.done = True

    def _spread(self, call: cst.Call, known: Spread, code: str) -> None:
        value = known.keys[self.keyword.name]
        if value is None:
            self._leave(
                call, f"takes {self.keyword.name} from a dictionary that depends on the run"
            )
        else:
            self._change(call, value, code)

    def _change(self, call: cst.Call, value: cst.BaseExpression, code: str) -> None:
        """Change the literal that an argument is or comes from, or else leave it."""
        source, wanted = self.source, self.change.value
        found = origin(source, value)
        if source.code(value) == code or (
            found is not None and found.value == wanted and type(found.value) is type(wanted)
        ):
            if found is not None and (word := given(self.change.options, found.options)):
                self._told(call, word)
            else:
                self.edits.done = True
        elif found is None or source.literal(cst.parse_expression(code)) is NO_LITERAL:
            self._leave(call, f"has {self.keyword.name}={source.code(value)}")
        elif word := given(self.change.options, found.options):
            self._told(call, word)
        elif found.others and not self._only_here(found.others):
            self.edits.replace(value, code)
        else:
            self.edits.replace(found.node, code)

    def _only_here(self, uses: Sequence[cst.CSTNode]) -> bool:
        """Whether a constant means this argument wherever it is used."""
        parents = [self.source.parent(use) for use in uses]
        return all(
            isinstance(arg, cst.Arg) and arg.keyword and arg.keyword.value == self.keyword.name
            for arg in parents
        )

    def _told(self, call: cst.Call, word: str) -> None:
        self._leave(call, f"gets {self.keyword.name} from the command line (`{word}`)")

    def _leave(self, call: cst.Call, what: str) -> None:
        self.edits.why.append(f"line {self.source.line(call)}: the call {what}")


def argument(call: cst.Call, keyword: Keyword) -> cst.BaseExpression | None:
    """What a call passes for a parameter, by keyword or by place; None where it does not, or where
    only a ``*`` or ``**`` could."""
    for place, arg in enumerate(call.args):
        if arg.star:
            if arg.star == "*":
                break
            continue
        if arg.keyword is not None and arg.keyword.value == keyword.name:
            return arg.value
        if arg.keyword is None and place == keyword.position:
            return arg.value
    return next(
        (arg.value for arg in call.args if arg.keyword and arg.keyword.value == keyword.name), None
    )


def current(source: Source, call: cst.Call, keyword: Keyword) -> Any:
    """What a call's parameter is, as far as the file tells; ``NO_LITERAL`` where it does not."""
    value = argument(call, keyword)
    if value is None:
        known = spread(source, call)
        if known is None:
            return NO_LITERAL
        if keyword.name not in known.keys:
            return keyword.default
        value = known.keys[keyword.name]
    found = origin(source, value) if value is not None else None
    return found.value if found is not None else NO_LITERAL
