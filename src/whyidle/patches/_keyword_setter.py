"""Setting a keyword argument of calls: at the call, or where its value comes from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import libcst as cst

from whyidle.model.knobs import as_python
from whyidle.model.patch import KnobChange, Rewrite
from whyidle.patches._call_layout import with_keyword
from whyidle.patches._keyword_argument import Keyword, argument_value, current_value
from whyidle.patches._source_tree import NO_LITERAL, Changes, SourceTree, parse_expression
from whyidle.patches._value_origin import Origin, find_origin, flags_of, given_option

UNCHANGED = "was not changed in the trials"
SHARED = f"takes the same option, and {UNCHANGED}"


@dataclass(slots=True)
class FileEdits:
    """Changes of one file, and what was left with which reason."""

    changes: dict[cst.CSTNode, Callable[[Any], Any]] = field(default_factory=dict)
    done: bool = False
    why: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def replace_expression(self, node: cst.CSTNode, code: str) -> None:
        """Replace an expression; text keeps its quotes."""
        new = parse_expression(code)
        if isinstance(node, cst.SimpleString) and isinstance(new, cst.SimpleString):
            quoted = node.quote[0]
            if quoted not in new.raw_value and not node.prefix:
                new = new.with_changes(value=f"{quoted}{new.raw_value}{quoted}")
        self.changes[node] = lambda _: new
        self.done = True

    def rewrite_file(self, source: SourceTree) -> Rewrite:
        """The file with these changes."""
        changes: Changes = self.changes
        return Rewrite(source.replace_nodes(changes), self.done, tuple(self.why), tuple(self.notes))


Code = Callable[[cst.Call], "str | None"]
"""what to write at a call, as an expression; None: do not change this call"""


@dataclass(slots=True)
class KeywordSetter:
    """Sets one keyword at several calls of a file."""

    source: SourceTree
    keyword: Keyword
    change: KnobChange
    edits: FileEdits = field(default_factory=FileEdits)
    untried: set[cst.CSTNode] = field(default_factory=set)
    unreached: list[cst.Call] = field(default_factory=list)

    def tried_calls(self, calls: Sequence[cst.Call]) -> list[cst.Call]:
        """The calls whose objects the trials changed, where that is known; all others are left. A
        call that no trial reached is treated as unknown, not as left."""
        made = self.change.made
        if made is None:
            return list(calls)
        tried, seen = [], set()
        for call in calls:
            lines = made.keys() & set(self.source.lines_of(call))
            seen |= lines
            if lines and not any(made[line] for line in lines):
                tried.append(call)
            elif why := next((made[line] for line in lines if made[line]), ""):
                self._leave_untried(call, why)
            else:
                self.unreached.append(call)
        for line in sorted(made.keys() - seen):
            if not made[line]:
                self.edits.why.append(f"line {line} makes one in a way that whyidle cannot follow")
        return tried

    def _leave_untried(self, call: cst.Call, why: str) -> None:
        if (found := self._value_origin(call)) is not None:
            self.untried.add(found.node)
        self.leave_call(call, f"was left as it is in the trials: {why}")

    def _value_origin(self, call: cst.Call) -> Origin | None:
        value = argument_value(call, self.keyword)
        return find_origin(self.source, value) if value is not None else None

    def _note_unreached(self, call: cst.Call) -> None:
        """Note a call that no trial reached, unless it already has the new value."""
        now = current_value(self.source, call, self.keyword, self.change.options)
        if now != self.change.value or type(now) is not type(self.change.value):
            found = self._value_origin(call)
            shared = found is not None and found.node in self.edits.changes
            what = SHARED if shared else UNCHANGED
            self.edits.notes.append(f"line {self.source.line_of(call)} {what}")

    def set_keyword(self, calls: Sequence[cst.Call], code: Code | None = None) -> Rewrite:
        """Set the keyword at each of the calls. ``code`` returns what to write at a call, where
        that is not the setting itself."""
        for call in calls:
            wanted = code(call) if code is not None else as_python(self.change.value)
            if wanted is not None:
                self._set_at_call(call, wanted)
        for call in self.unreached:
            self._note_unreached(call)
        return self.edits.rewrite_file(self.source)

    def _set_at_call(self, call: cst.Call, code: str) -> None:
        value = argument_value(call, self.keyword)
        if value is not None:
            self._change_literal(call, value, code)
        elif any(arg.star for arg in call.args):
            self.leave_call(call, "takes arguments from elsewhere (`*` or `**`)")
        elif len(call.args) == 1 and isinstance(call.args[0].value, cst.GeneratorExp):
            self.leave_call(call, "takes a bare generator")
        else:
            name = self.keyword.name
            self.edits.changes[call] = lambda new: with_keyword(new, name, code)
            self.edits.done = True

    def change_value(self, place: cst.CSTNode, value: cst.BaseExpression) -> None:
        """Change an expression, or the literal that it comes from, to the setting."""
        self._change_literal(place, value, as_python(self.change.value))

    def _change_literal(self, call: cst.CSTNode, value: cst.BaseExpression, code: str) -> None:
        source, wanted, name = self.source, self.change.value, self.keyword.name
        found = find_origin(source, value)
        if source.code_of(value) == code or (
            found is not None and found.value == wanted and type(found.value) is type(wanted)
        ):
            if word := given_option(self.change.options, found.options if found else ()):
                self._note_option(call, word)
            else:
                self.edits.done = True
        elif found is None or source.literal_value(parse_expression(code)) is NO_LITERAL:
            flags = "/".join(flags_of(source, value))
            by = f", the command's option {flags}" if flags else ""
            self.leave_call(call, f"has {name}={source.code_of(value)}{by}")
        elif word := given_option(self.change.options, found.options):
            self._note_option(call, word)
        elif found.node in self.untried and found.options:
            self.leave_call(call, f"has {name}={source.code_of(value)}, as others have")
        elif self._only_at_call(call, found):
            self.edits.replace_expression(value, code)
        else:
            self.edits.replace_expression(found.node, code)

    def _only_here(self, place: cst.CSTNode, uses: Sequence[cst.CSTNode]) -> bool:
        """Whether a constant is used for this argument of this function only."""
        own = self.source.qualified_names(place.func) if isinstance(place, cst.Call) else set()
        parents = [self.source.parent_of(use) for use in uses]
        calls = [self.source.parent_of(arg) for arg in parents if arg is not None]
        named = [arg.keyword for arg in parents if isinstance(arg, cst.Arg)]
        same = [keyword for keyword in named if keyword and keyword.value == self.keyword.name]
        return len(same) == len(parents) and all(
            isinstance(call, cst.Call) and self.source.qualified_names(call.func) == own
            for call in calls
        )

    def _only_at_call(self, place: cst.CSTNode, found: Origin) -> bool:
        """Whether the origin of a value decides something else as well. A command's option belongs
        to the user, so one that unreached calls take too is changed for all."""
        unreached = () if found.options else map(self._value_origin, self.unreached)
        shared = any(each is not None and each.node is found.node for each in unreached)
        used = bool(found.others) and not self._only_here(place, found.others)
        return shared or used or found.node in self.untried

    def _note_option(self, call: cst.CSTNode, word: str) -> None:
        self.leave_call(
            call, f"gets {self.keyword.name} from the command line: change `{word}` there"
        )

    def leave_call(self, call: cst.CSTNode, what: str) -> None:
        """Leave a place to people, with the reason."""
        self.edits.why.append(f"line {self.source.line_of(call)} {what}")
