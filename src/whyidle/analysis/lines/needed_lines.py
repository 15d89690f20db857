"""Lines of the user's training loop whose results training does not need, by its stored source.

The source is parsed, not run. A function trains if it runs a backward pass or an optimizer's step,
returns the loss to a trainer, or calls a function that trains. In such a function, and in hooks
that a trainer calls, a statement only reports if everything that it does is proven to compute,
print, log, draw or collect (``call_effects``), and nothing that training needs comes from it:
through assignments, objects that are changed (``buffer.append(x)``), iterators that it takes from,
other names of the same object, and conditions that skip or end a step. All other statements are
needed, and so is every line with such a statement.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePath
from typing import TYPE_CHECKING, Final, NamedTuple

from whyidle.analysis.lines.source_statements import (
    CONTAINERS,
    FUNCTION,
    Statement,
    assignment_targets,
    called_name,
    calls_in,
    describe_statement,
    heads_of,
    is_training_call,
    lines_of,
    names_in,
    parse_source,
    statements_of,
    targets_of,
)

if TYPE_CHECKING:
    from whyidle.analysis.lines.call_effects import Effects

RETURNS_LOSS: Final = frozenset(
    {"training_step", "compute_loss", "closure", "training_step_end", "train_step"}
)
"""functions that return the loss to a trainer or an optimizer"""
_HOOK: Final = re.compile(r"^on_[a-z]+_")
"""functions that a trainer calls between its own parts of a step (``on_before_optimizer_step``);
nobody takes what they return"""
RARE: Final = 50
"""steps from which on work between them is rare: what reports are advised to be"""
_LEAVES: Final = (ast.Continue, ast.Break, ast.Raise, ast.Assert)


class NeededLines(NamedTuple):
    """Lines of a file's functions."""

    needed: frozenset[int] = frozenset()
    """lines of training functions and hooks that training needs"""
    reporting: frozenset[int] = frozenset()
    """lines that only report, all statements on them"""
    unknown: frozenset[int] = frozenset()
    """lines with one statement that is needed only because the source does not show what its
    outermost call changes: a known library's name tells more"""
    rare: frozenset[int] = frozenset()
    """lines that run once in many steps: under a condition on a remainder (``step % 100 == 0``), or
    outside the innermost loop that trains"""


def judge_sources(sources: Mapping[str, str]) -> dict[str, NeededLines]:
    """Judge the lines of files by their text; files that are no Python have none."""
    trees = {name: tree for name, text in sources.items() if (tree := parse_source(text))}
    files = {name: _read_functions(tree) for name, tree in trees.items()}
    functions = [function for found in files.values() for function in found]
    for function in functions:
        function.effects.files = frozenset(PurePath(name).stem for name in sources)
    _Program(functions).judge()
    training = _find_training(functions)
    return {name: _lines_of_file(found, training) for name, found in files.items()}


class _Function:
    """A function with its statements; "<module>" is the code outside all of them."""

    def __init__(self, name: str, node: ast.AST, effects: Effects) -> None:
        self.name, self.node, self.effects = name, node, effects
        self.called = frozenset(map(called_name, calls_in(node)))
        self.trains = name in RETURNS_LOSS or any(map(is_training_call, calls_in(node)))
        self.statements = list(statements_of(getattr(node, "body", []), ()))
        self.own = _own_names(node) if name != "<module>" else frozenset[str]()
        self.judged = False
        self.wanted: set[str] = set()
        for one in self.statements:
            describe_statement(one)
            one.changes |= set().union(*map(names_in, self._taken_by(one)))
        self.reads = set().union(*(one.reads for one in self.statements)) - self.own
        """what it reads besides its own variables"""
        self.changes = set().union(*(one.sets | one.changes for one in self.statements)) - self.own
        self.mentions = {name.lstrip(".") for name in names_in(node)}

    def _taken_by(self, one: Statement) -> Iterator[ast.expr]:
        """What a statement may take from iterators."""
        for head in heads_of(one.node):
            yield from self.effects.consumed_in(head)
        values = [getattr(one.node, "iter", None)]
        if isinstance(one.node, ast.Assign) and isinstance(one.node.targets[0], ast.Tuple):
            values.append(one.node.value)
        yield from (v for v in values if v is not None and not self.effects.is_sized(v))

    def origins(self) -> Iterator[tuple[set[str], set[str]]]:
        """Yield names, and those of objects that they may share or contain."""
        for one in self.statements:
            for head in heads_of(one.node):
                for node in ast.walk(head):
                    if isinstance(node, ast.NamedExpr | ast.comprehension):
                        value = node.iter if isinstance(node, ast.comprehension) else node.value
                        yield targets_of(node.target), self._shared_by(value)
                    elif isinstance(node, ast.Call) and called_name(node) in CONTAINERS:
                        shared = set().union(*map(self._shared_by, node.args))
                        yield targets_of(getattr(node.func, "value", node)), shared
            made_of = getattr(one.node, "iter", getattr(one.node, "value", None)) or ast.Constant(0)
            for target in assignment_targets(one.node):
                summed = isinstance(one.node, ast.AugAssign) and self.effects.is_number(target)
                yield targets_of(target), set() if summed else self._shared_by(made_of)
            for item in getattr(one.node, "items", ()):
                if item.optional_vars is not None:
                    yield targets_of(item.optional_vars), self._shared_by(item.context_expr)

    def _shared_by(self, value: ast.AST) -> set[str]:
        return set() if self.effects.is_fresh(value) else names_in(value)


def _read_functions(tree: ast.Module) -> list[_Function]:
    from whyidle.analysis.lines.call_effects import Effects  # noqa: PLC0415  # recordings do without

    effects = Effects(tree)
    nodes = [n for n in ast.walk(tree) if isinstance(n, FUNCTION)]
    return [_Function("<module>", tree, effects), *(_Function(n.name, n, effects) for n in nodes)]


def _own_names(function: ast.AST) -> frozenset[str]:
    """Parameters and variables of a function."""
    own: set[str] = set()
    shared: set[str] = set()
    for node in ast.walk(function):
        if isinstance(node, ast.arg):
            own.add(node.arg)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            own.add(node.id)
        elif isinstance(node, ast.Global | ast.Nonlocal):
            shared.update(node.names)
    return frozenset(own - shared)


class _Program:
    """The functions of all files."""

    def __init__(self, functions: list[_Function]) -> None:
        self._functions = functions
        self._named: dict[str, list[_Function]] = {}
        for function in functions[:]:
            if function.name != "<module>":
                self._named.setdefault(function.name, []).append(function)
        self._reached: dict[str, tuple[set[str], set[str]]] = {}
        training = _find_training(functions)
        for function in functions:
            function.judged = function.name in training or bool(_HOOK.match(function.name))
        self._judged = [function for function in functions if function.judged]
        every = [node for f in functions if f.name == "<module>" for node in ast.walk(f.node)]
        self._mentioned = {getattr(node, "id", getattr(node, "attr", "")) for node in every}
        attributes = frozenset(
            node.attr
            for node in every
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
        )
        known = {n: [(f.effects, f.node) for f in found] for n, found in self._named.items()}
        reads_files = any(function.effects.reads_files for function in functions)
        for function in functions:
            function.effects.functions = known
            function.effects.writes_are_read = reads_files
            function.effects.read_attributes = attributes

    def judge(self) -> None:
        """Find the statements that training needs."""
        origins = self._find_origins()
        for function in self._functions:
            for one in function.statements:
                self._add_calls(function, one)
                deep = isinstance(one.node, ast.AugAssign)  # it changes what a container holds
                containers = {n for n in one.changes if not deep and function.effects.holds(n)}
                one.sets |= _close(one.changes - containers, origins) | containers
                one.sets -= function.effects.modules
                one.sets = {n for n in one.sets if not function.effects.reports(n)}
                one.needed = self._is_needed(function, one)
        count = -1
        while count != (count := sum(one.needed for f in self._functions for one in f.statements)):
            shared = self._shared_names()
            for function in self._judged:
                self._spread_need(function, shared)
        for function in self._functions:
            proven = {n for one in function.statements if not one.unknown for n in one.reads}
            for one in function.statements:
                one.unknown &= not one.sets & proven

    def _add_calls(self, function: _Function, one: Statement) -> None:
        """Add what the user's functions read and change that a statement mentions."""
        for head in heads_of(one.node):
            one.mentions |= {n.lstrip(".") for n in names_in(head)} & self._named.keys()
            for call in calls_in(head):
                if function.effects.changes_arguments(called_name(call)):
                    parts = [*call.args, *(word.value for word in call.keywords), call.func]
                    one.changes |= set().union(*map(names_in, parts))
        for name in one.mentions:
            reads, changes = self._reach(name)
            one.reads |= reads
            one.sets |= changes

    def _find_origins(self) -> dict[str, set[str]]:
        """Name -> names of objects that it may share, wherever one is made the other."""
        origins: dict[str, set[str]] = {}
        for function in self._functions:
            for names, shared in function.origins():
                for name in names:
                    origins.setdefault(name, set()).update(shared)
        return origins

    def _reach(self, name: str) -> tuple[set[str], set[str]]:
        """What a function reads and changes, and all that it mentions."""
        if name not in self._reached:
            seen, left = {name}, [name]
            reads: set[str] = set()
            changes: set[str] = set()
            while left:
                for function in self._named[left.pop()]:
                    reads |= function.reads
                    changes |= function.changes
                    left += (function.mentions & self._named.keys()) - seen
                    seen |= function.mentions
            self._reached[name] = reads, changes
        return self._reached[name]

    def _is_needed(self, function: _Function, one: Statement) -> bool:
        node, heads = one.node, heads_of(one.node)
        if isinstance(node, _LEAVES) or (isinstance(node, ast.Return) and one.around):
            return True
        if function.effects.is_proven(node, heads):
            return False
        call = node.value if isinstance(node, ast.Expr | ast.Assign) else None
        one.unknown = (
            isinstance(call, ast.Call)
            and not is_training_call(call)
            and called_name(call) not in self._named
            and all(isinstance(target, ast.Name) for target in assignment_targets(node))
            and function.effects.is_pure(node, but=call)
        )
        return True

    def _shared_names(self) -> set[str]:
        """Names that training needs outside of the function that sets them: those that other
        functions read, and functions that nobody in these files mentions."""
        names: set[str] = set()
        for function in self._functions:
            if function in self._judged:
                reads = set().union(*(one.reads for one in function.statements if one.needed))
                names |= reads - function.own
            elif function.name not in self._mentioned:
                names |= function.reads
        return names

    def _spread_need(self, function: _Function, shared: set[str]) -> None:
        statements = function.statements
        heads = {id(head) for one in statements if one.needed for head in one.around}
        unsafe = {
            id(one)
            for one in statements
            for head in one.around
            if isinstance(head, ast.Try) and id(head) in heads and _is_caught(head, statements)
        }
        function.wanted = shared - function.own
        function.wanted |= set().union(*(one.reads for one in statements if one.needed))
        for one in statements:
            one.needed |= bool(one.sets & function.wanted) or id(one.node) in heads
            one.needed |= id(one) in unsafe
            if isinstance(one.node, ast.Return):
                one.needed |= self._is_result_used(function)

    def _is_result_used(self, function: _Function) -> bool:
        """Whether training needs what a function returns."""
        if _HOOK.match(function.name):
            return False
        if function.name in RETURNS_LOSS or function.name not in self._mentioned:
            return True
        return any(
            _takes_result(one, function.name, caller.wanted)
            for caller in self._functions
            if caller is not function
            for one in caller.statements
        )


def _close(names: set[str], origins: Mapping[str, set[str]]) -> set[str]:
    """Names, and all that they may share an object with."""
    found, left = set(names), list(names)
    while left:
        left += (more := origins.get(left.pop(), set()) - found)
        found |= more
    return found


def _is_caught(head: ast.Try, statements: Iterable[Statement]) -> bool:
    """Whether training needs what a handler does: then what is tried decides."""
    handled = {id(node) for handler in head.handlers for node in ast.walk(handler)}
    return any(one.needed and id(one.node) in handled for one in statements)


def _takes_result(one: Statement, name: str, wanted: set[str]) -> bool:
    """Whether a statement hands on the result of a function to what training needs."""
    if name not in one.mentions or not one.needed:
        return False
    if isinstance(one.node, ast.Assign):
        return bool(set().union(*map(targets_of, one.node.targets)) & wanted)
    value = one.node.value if isinstance(one.node, ast.Expr) else None
    return not isinstance(value, ast.Call) or called_name(value) != name


def _lines_of_file(functions: list[_Function], training: set[str]) -> NeededLines:
    needed: set[int] = set()
    rare = {line for function in functions for line in _rare_lines(function, training)}
    reporting: set[int] = set()
    unknown: Counter[int] = Counter()
    for function in functions:
        for one in function.statements:
            lines = lines_of(one.node)
            unknown.update(lines if one.unknown else (*lines, *lines))
            if function.judged:
                (needed if one.needed else reporting).update(lines)
    single = frozenset(line for line, count in unknown.items() if count == 1)
    return NeededLines(frozenset(needed), frozenset(reporting - needed), single, frozenset(rare))


def _rare_lines(function: _Function, training: set[str]) -> Iterator[int]:
    """Yield the lines of a function that run once in many of its training steps."""
    loops: set[ast.stmt] = set()
    trained: set[ast.stmt] = set()
    for one in function.statements:
        calls = [call for head in heads_of(one.node) for call in calls_in(head)]
        if any(is_training_call(call) or called_name(call) in training for call in calls):
            loops.update(
                [head for head in one.around if isinstance(head, ast.For | ast.While)][-1:]
            )
            trained.update((one.node, *one.around))
    for one in function.statements:
        outside = bool(loops) and loops.isdisjoint((*one.around, one.node))
        heads = (h for h in one.around if isinstance(h, ast.If) and h not in trained)
        if one.node not in trained and (outside or any(map(_is_seldom, heads))):
            yield from lines_of(one.node)


def _is_seldom(head: ast.If) -> bool:
    """Whether a condition is on a counter's remainder by a number that is large or not shown."""
    for node in ast.walk(head.test):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod):
            every = getattr(node.right, "value", RARE)
            return not isinstance(every, int) or every >= RARE
    return False


def _find_training(functions: list[_Function]) -> set[str]:
    """Names of functions that train, themselves or by a function that they call."""
    found = {function.name for function in functions if function.trains}
    while True:
        callers = {f.name for f in functions if not f.called.isdisjoint(found)} - found
        if not callers:
            return found
        found |= callers
