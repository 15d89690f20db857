"""Lines of the user's training loop whose results training does not need, by its stored source.

The source is parsed, not run. A function trains if it runs a backward pass or an optimizer's step,
returns the loss to a trainer, or calls a function that trains. In such a function, and in hooks
that a trainer calls, training needs the statements that run the pass or change weights, and those
from which their values come: through assignments, through objects that are changed
(``buffer.append(x)``), and through conditions that skip or end a step. All other statements only
report. Where the source does not show what a call changes, it is needed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, NamedTuple

from whyidle.analysis.lines.source_statements import (
    CONTAINERS,
    FUNCTION,
    Statement,
    assignment_targets,
    called_name,
    calls_in,
    changes_state,
    changes_tensor,
    describe_statement,
    heads_of,
    is_training_call,
    last_name,
    lines_of,
    parse_source,
    sets_state,
    statements_of,
    targets_of,
)

RETURNS_LOSS: Final = frozenset(
    {"training_step", "compute_loss", "closure", "training_step_end", "train_step"}
)
"""functions that return the loss to a trainer or an optimizer"""
_HOOK: Final = re.compile(r"^on_[a-z]+_")
"""functions that a trainer calls between its own parts of a step (``on_before_optimizer_step``);
nobody takes what they return"""
_PURE: Final = frozenset(
    ("print", "len", "sum", "min", "max", "abs", "round", "sorted", "float", "int", "str", "list")
)
_LEAVES: Final = (ast.Continue, ast.Break, ast.Raise)
_MODEL_METHODS: Final = frozenset({"parameters", "named_parameters", "state_dict", "train"})


class NeededLines(NamedTuple):
    """Lines of a file's training functions and hooks."""

    needed: frozenset[int] = frozenset()
    """lines that training needs"""
    reporting: frozenset[int] = frozenset()
    """lines that only report"""
    unknown: frozenset[int] = frozenset()
    """needed lines of which the source does not show what they change"""


class _Effects(NamedTuple):
    """Names that a function reads, and those of objects that it changes, besides its own."""

    reads: frozenset[str] = frozenset()
    changes: frozenset[str] = frozenset()


def judge_sources(sources: Mapping[str, str]) -> dict[str, NeededLines]:
    """Judge the lines of files by their text; files that are no Python have none."""
    parsed = {
        name: tree for name, text in sources.items() if (tree := parse_source(text)) is not None
    }
    programs = {name: _Program(tree) for name, tree in parsed.items()}
    for program in programs.values():
        program.learn_functions(programs.values())
    return {name: program.needed_lines() for name, program in programs.items()}


class _Program:
    """The functions of one file; "<module>" is the code outside all of them."""

    def __init__(self, tree: ast.Module) -> None:
        self.functions: list[tuple[str, ast.AST]] = [("<module>", tree)]
        self.functions += [(n.name, n) for n in ast.walk(tree) if isinstance(n, FUNCTION)]
        self.calls = {name: [*calls_in(node)] for name, node in self.functions}
        self.called = {name: frozenset(map(called_name, own)) for name, own in self.calls.items()}
        self.trains = {
            name: name in RETURNS_LOSS or any(map(is_training_call, own))
            for name, own in self.calls.items()
        }
        self.known = {name for name, _ in self.functions}
        self.changing = {name for name, node in self.functions if changes_state(node)}
        self.training: set[str] = set()
        self.effects = {name: _find_effects(node) for name, node in self.functions[1:]}
        self.models = _find_models(call for calls in self.calls.values() for call in calls)
        self._used: dict[str, bool] = {}
        self._reached: dict[str, _Effects] = {}
        self._all_calls: dict[str, list[ast.Call]] = {}

    def learn_functions(self, programs: Iterable[_Program]) -> None:
        """Learn what the functions of all files do; "<module>" is each file's own."""
        shared = [program for program in programs if program is not self]
        calls = {
            name: calls for program in (*shared, self) for name, calls in program.calls.items()
        }
        self.known = self.known.union(*(program.known for program in shared))
        others = (program.changing - {"<module>"} for program in shared)
        self.changing = self.changing.union(*others)
        called: dict[str, frozenset[str]] = {}
        trains: dict[str, bool] = {}
        for program in (*shared, self):
            called |= program.called
            trains |= program.trains
        self.training = _find_training(called, trains)
        self.effects = {n: one for program in (*shared, self) for n, one in program.effects.items()}
        self._all_calls = calls

    def needed_lines(self) -> NeededLines:
        """Judge the lines of functions that train and of hooks."""
        needed: set[int] = set()
        reporting: set[int] = set()
        unknown: set[int] = set()
        for one in self.judged_statements():
            (needed if one.needed else reporting).update(lines_of(one.node))
            unknown.update(lines_of(one.node) if one.unknown else ())
        return NeededLines(frozenset(needed), frozenset(reporting), frozenset(unknown))

    def judged_statements(self) -> Iterator[Statement]:
        """Yield the statements of functions that train and of hooks."""
        for name, node in self.functions:
            if name in self.training or _HOOK.match(name):
                yield from self._judge_statements(name, node)[0]

    def _judge_statements(self, name: str, function: ast.AST) -> tuple[list[Statement], set[str]]:
        """Statements of a function with whether training needs them, and the names it needs."""
        statements = list(statements_of(getattr(function, "body", []), ()))
        origins: dict[str, set[str]] = {}
        for one in statements:
            describe_statement(one, origins)
            for head in heads_of(one.node):
                for call in calls_in(head):
                    effects = self._effects_of(called_name(call))
                    one.sets |= effects.changes
                    one.reads |= effects.reads
            one.needed = self._is_needed(one, name)
        wanted: set[str] = set()
        count = -1
        while count != (count := sum(one.needed for one in statements)):
            heads = {id(head) for one in statements if one.needed for head in one.around}
            wanted = wanted.union(*(one.reads for one in statements if one.needed))
            for one in statements:
                one.needed |= bool(one.sets & wanted) or id(one.node) in heads
        return statements, wanted

    def _effects_of(self, name: str) -> _Effects:
        if name not in self._reached:
            known = name in self.effects
            reached = _reach_effects(name, self.effects, self._all_calls) if known else _Effects()
            self._reached[name] = reached
        return self._reached[name]

    def _is_needed(self, one: Statement, name: str) -> bool:
        node = one.node
        if isinstance(node, _LEAVES):
            return True
        if isinstance(node, ast.Return):
            return not _HOOK.match(name) and (name in RETURNS_LOSS or self._is_result_used(name))
        heads = heads_of(node)
        calls = [call for head in heads for call in calls_in(head)]
        if any(map(changes_tensor, calls)) or sets_state(node):
            return True
        used = self.training | self.changing
        if any(is_training_call(call) or called_name(call) in used for call in calls):
            return True
        call = node.value if isinstance(node, ast.Expr) else None
        one.unknown = isinstance(call, ast.Call) and not self._shows_effect(call)
        return one.unknown

    def _is_result_used(self, name: str) -> bool:
        """Whether training needs what a function returns, by those of the file that call it."""
        if name not in self._used:
            self._used[name] = True  # if it is asked again before it is answered
            self._used[name] = self._find_use(name)
        return self._used[name]

    def _find_use(self, name: str) -> bool:
        callers = 0
        for caller, node in self.functions:
            if caller == name or not any(called_name(c) == name for c in calls_in(node)):
                continue
            callers += 1
            statements, wanted = self._judge_statements(caller, node)
            for one in statements:
                calls = (call for head in heads_of(one.node) for call in calls_in(head))
                taken = isinstance(one.node, ast.Return) and one.needed
                targets = set().union(*map(targets_of, assignment_targets(one.node)))
                if any(called_name(c) == name for c in calls) and (taken or targets & wanted):
                    return True
        return not callers

    def _shows_effect(self, call: ast.Call) -> bool:
        """Whether the source shows what a call whose result is not taken changes."""
        name = called_name(call)
        if isinstance(call.func, ast.Name):
            return name in _PURE or name in self.known
        if name.startswith(("add_", "log", "set_post")):
            return True
        parts = (*call.args, *(keyword.value for keyword in call.keywords))
        given = {last_name(part) for part in parts if isinstance(part, ast.Name | ast.Attribute)}
        return name in CONTAINERS | self.known and not given & self.models


def _find_effects(function: ast.AST) -> _Effects:
    """What a function reads and changes besides its own variables."""
    arguments = getattr(function, "args", ast.arguments([], [], None, [], [], None, []))
    own = {one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
    reads: set[str] = set()
    changes: set[str] = set()
    for one in statements_of(getattr(function, "body", []), ()):
        describe_statement(one, {})
        plain = [t for target in assignment_targets(one.node) for t in ast.walk(target)]
        own |= {t.id for t in plain if isinstance(t, ast.Name) and isinstance(t.ctx, ast.Store)}
        reads |= one.reads
        changes |= one.sets
    for node in ast.walk(function):
        own -= set(node.names) if isinstance(node, ast.Global | ast.Nonlocal) else set()
    return _Effects(frozenset(reads - own), frozenset(changes - own))


def _reach_effects(
    name: str, effects: Mapping[str, _Effects], calls: Mapping[str, list[ast.Call]]
) -> _Effects:
    """The effects of a function and of all that it calls."""
    reached, left = {name}, [name]
    while left:
        called = {called_name(call) for call in calls.get(left.pop(), ())}
        left += (called & effects.keys()) - reached
        reached |= called & effects.keys()
    return _Effects(
        frozenset().union(*(effects[one].reads for one in reached)),
        frozenset().union(*(effects[one].changes for one in reached)),
    )


def _find_training(called: Mapping[str, frozenset[str]], trains: Mapping[str, bool]) -> set[str]:
    """Names of functions that train, themselves or by a function that they call."""
    found = {name for name, own in trains.items() if own}
    while True:
        callers = {name for name in called.keys() - found if not called[name].isdisjoint(found)}
        if not callers:
            return found
        found |= callers


def _find_models(calls: Iterable[ast.Call]) -> set[str]:
    """Names of models: what is asked for its parameters or put into training mode."""
    asked = (call.func for call in calls if called_name(call) in _MODEL_METHODS)
    return {last_name(function.value) for function in asked if isinstance(function, ast.Attribute)}
