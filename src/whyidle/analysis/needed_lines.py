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
from dataclasses import dataclass, field
from typing import Final, NamedTuple

TRAINS: Final = frozenset({"backward", "manual_backward", "zero_grad", "grad"})
"""methods that run a backward pass, or prepare one"""
RETURNS_LOSS: Final = frozenset(
    {"training_step", "compute_loss", "closure", "training_step_end", "train_step"}
)
"""functions that return the loss to a trainer or an optimizer"""
_HOOK: Final = re.compile(r"^on_[a-z]+_")
"""functions that a trainer calls between its own parts of a step (``on_before_optimizer_step``);
nobody takes what they return"""
_OPTIMIZER: Final = re.compile(r"opt(im|imizer)?s?(_\w+)?$|^scaler$|sched", re.IGNORECASE)
_IN_PLACE: Final = re.compile(r"[a-z\d]_$")
"""methods that change a tensor, such as ``mul_``"""
_STATE: Final = frozenset({"grad", "data", "requires_grad", "param_groups"})
_PURE: Final = frozenset(
    ("print", "len", "sum", "min", "max", "abs", "round", "sorted", "float", "int", "str", "list")
)
_CONTAINERS: Final = frozenset(
    {"append", "extend", "add", "update", "insert", "appendleft", "setdefault", "put"}
)
"""methods that change the object that they are called on, and nothing else"""
_LEAVES: Final = (ast.Continue, ast.Break, ast.Raise)
_MODEL_METHODS: Final = frozenset({"parameters", "named_parameters", "state_dict", "train"})
_FUNCTION: Final = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(slots=True)
class _Statement:
    """One simple statement, or the head of a compound one, and the heads around it."""

    node: ast.stmt
    around: tuple[ast.stmt, ...]
    sets: set[str] = field(default_factory=set)
    reads: set[str] = field(default_factory=set)
    needed: bool = False


class NeededLines(NamedTuple):
    """Lines of a file's training functions and hooks."""

    needed: frozenset[int] = frozenset()
    """lines that training needs"""
    reporting: frozenset[int] = frozenset()
    """lines that only report"""


def judge_sources(sources: Mapping[str, str]) -> dict[str, NeededLines]:
    """Judge the lines of files by their text; files that are no Python have none."""
    parsed = {name: tree for name, text in sources.items() if (tree := _parse(text)) is not None}
    programs = {name: _Program(tree) for name, tree in parsed.items()}
    for program in programs.values():
        program.learn_functions(programs.values())
    return {name: program.needed_lines() for name, program in programs.items()}


def _parse(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (ValueError, SyntaxError, RecursionError):
        return None


class _Program:
    """The functions of one file; "<module>" is the code outside all of them."""

    def __init__(self, tree: ast.Module) -> None:
        self.functions: list[tuple[str, ast.AST]] = [("<module>", tree)]
        self.functions += [(n.name, n) for n in ast.walk(tree) if isinstance(n, _FUNCTION)]
        self.calls = {name: [*_calls_in(node)] for name, node in self.functions}
        self.known = {name for name, _ in self.functions}
        self.changing = {name for name, node in self.functions if _changes_state(node)}
        self.training: set[str] = set()
        self.models = _find_models(call for calls in self.calls.values() for call in calls)
        self._used: dict[str, bool] = {}

    def learn_functions(self, programs: Iterable[_Program]) -> None:
        """Learn what the functions of all files do; "<module>" is each file's own."""
        shared = [program for program in programs if program is not self]
        calls = {
            name: calls for program in (*shared, self) for name, calls in program.calls.items()
        }
        self.known = self.known.union(*(program.known for program in shared))
        others = (program.changing - {"<module>"} for program in shared)
        self.changing = self.changing.union(*others)
        self.training = _find_training(calls)

    def needed_lines(self) -> NeededLines:
        """Judge the lines of functions that train and of hooks."""
        lines: dict[bool, set[int]] = {True: set(), False: set()}
        for one in self.judged_statements():
            lines[one.needed].update(_lines_of(one.node))
        return NeededLines(frozenset(lines[True]), frozenset(lines[False]))

    def judged_statements(self) -> Iterator[_Statement]:
        """Yield the statements of functions that train and of hooks."""
        for name, node in self.functions:
            if name in self.training or _HOOK.match(name):
                yield from self._judge_statements(name, node)[0]

    def _judge_statements(self, name: str, function: ast.AST) -> tuple[list[_Statement], set[str]]:
        """Statements of a function with whether training needs them, and the names it needs."""
        statements = list(_statements_of(getattr(function, "body", []), ()))
        origins: dict[str, set[str]] = {}
        for one in statements:
            _describe(one, origins)
            one.needed = self._is_needed(one, name)
        wanted: set[str] = set()
        changed = True
        while changed:
            changed = False
            heads = {id(head) for one in statements if one.needed for head in one.around}
            for one in statements:
                one.needed |= bool(one.sets & wanted) or id(one.node) in heads
                if one.needed and not one.reads <= wanted:
                    wanted |= one.reads
                    changed = True
        return statements, wanted

    def _is_needed(self, one: _Statement, name: str) -> bool:
        node = one.node
        if isinstance(node, _LEAVES):
            return True
        if isinstance(node, ast.Return):
            return not _HOOK.match(name) and (name in RETURNS_LOSS or self._is_result_used(name))
        heads = _heads_of(node)
        calls = [call for head in heads for call in _calls_in(head)]
        if any(map(_changes_tensor, calls)) or _sets_state(node):
            return True
        used = self.training | self.changing
        if any(_is_training_call(call) or _called_name(call) in used for call in calls):
            return True
        call = node.value if isinstance(node, ast.Expr) else None
        return isinstance(call, ast.Call) and not self._shows_effect(call)

    def _is_result_used(self, name: str) -> bool:
        """Whether training needs what a function returns, by those of the file that call it."""
        if name not in self._used:
            self._used[name] = True  # if it is asked again before it is answered
            self._used[name] = self._find_use(name)
        return self._used[name]

    def _find_use(self, name: str) -> bool:
        callers = 0
        for caller, node in self.functions:
            if caller == name or not any(_called_name(c) == name for c in _calls_in(node)):
                continue
            callers += 1
            statements, wanted = self._judge_statements(caller, node)
            for one in statements:
                calls = (call for head in _heads_of(one.node) for call in _calls_in(head))
                taken = isinstance(one.node, ast.Return) and one.needed
                if any(_called_name(c) == name for c in calls) and (taken or one.sets & wanted):
                    return True
        return not callers

    def _shows_effect(self, call: ast.Call) -> bool:
        """Whether the source shows what a call whose result is not taken changes."""
        name = _called_name(call)
        if isinstance(call.func, ast.Name):
            return name in _PURE or name in self.known
        if name.startswith(("add_", "log", "set_post")):
            return True
        given = set().union(*(_names_in(part) for part in (*call.args, *call.keywords)))
        return name in _CONTAINERS | self.known and not given & self.models


def _find_training(calls: Mapping[str, list[ast.Call]]) -> set[str]:
    """Names of functions that train, themselves or by a function that they call."""
    found = {n for n in calls if n in RETURNS_LOSS or any(map(_is_training_call, calls[n]))}
    while True:
        callers = {
            name
            for name in calls.keys() - found
            if any(_called_name(call) in found for call in calls[name])
        }
        if not callers:
            return found
        found |= callers


def _find_models(calls: Iterable[ast.Call]) -> set[str]:
    """Names of models: what is asked for its parameters or put into training mode."""
    asked = (call.func for call in calls if _called_name(call) in _MODEL_METHODS)
    return {_root(function.value) for function in asked if isinstance(function, ast.Attribute)}


def _own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Everything inside a function, functions and classes defined in it left out."""
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, (*_FUNCTION, ast.ClassDef, ast.Lambda)):
            yield child
            yield from _own_nodes(child)


def _calls_in(node: ast.AST) -> Iterator[ast.Call]:
    if isinstance(node, ast.Call):
        yield node
    yield from (child for child in _own_nodes(node) if isinstance(child, ast.Call))


def _called_name(call: ast.Call) -> str:
    function = call.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _is_training_call(call: ast.Call) -> bool:
    name, function = _called_name(call), call.func
    if not isinstance(function, ast.Attribute):
        return False
    return name in TRAINS or (name == "step" and bool(_OPTIMIZER.search(_root(function.value))))


def _root(node: ast.AST) -> str:
    """The last name of a dotted expression, or of what is indexed or called."""
    while isinstance(node, ast.Subscript | ast.Call | ast.Starred):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _names_in(node: ast.AST | None) -> set[str]:
    """Names, and dotted names of ``self``, that an expression reads."""
    names: set[str] = set()
    for child in ast.walk(node) if node is not None else ():
        if isinstance(getattr(child, "ctx", None), ast.Store):
            continue
        if isinstance(child, ast.Attribute) and isinstance(child.value, ast.Name):
            names.add(child.attr if child.value.id == "self" else child.value.id)
        elif isinstance(child, ast.Name) and child.id != "self":
            names.add(child.id)
    return names


def _targets_of(node: ast.AST) -> set[str]:
    """Names that an assignment to ``node`` sets or changes."""
    if isinstance(node, ast.Tuple | ast.List):
        return set().union(*map(_targets_of, node.elts)) if node.elts else set()
    if isinstance(node, ast.Starred | ast.Subscript):
        return _targets_of(node.value)
    if isinstance(node, ast.Attribute):
        is_self = isinstance(node.value, ast.Name) and node.value.id == "self"
        return {node.attr} if is_self else _targets_of(node.value)
    return {node.id} if isinstance(node, ast.Name) else set()


def _assignment_targets(node: ast.AST) -> list[ast.AST]:
    if isinstance(node, ast.Assign):
        return list(node.targets)
    if isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For | ast.AsyncFor):
        return [node.target]
    return []


def _changes_state(function: ast.AST) -> bool:
    """Whether code changes tensors in place, or weights, gradients or an optimizer's settings."""
    return any(
        _sets_state(node) or (isinstance(node, ast.Call) and _changes_tensor(node))
        for node in _own_nodes(function)
    )


def _sets_state(node: ast.AST) -> bool:
    return any(isinstance(t, ast.Attribute) and t.attr in _STATE for t in _assignment_targets(node))


def _changes_tensor(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else ""
    return bool(_IN_PLACE.search(name)) or name in ("load_state_dict", *TRAINS)


def _lines_of(node: ast.stmt) -> range:
    """The lines of a simple statement, or of the head of a compound one."""
    body = getattr(node, "body", None)
    last = body[0].lineno - 1 if body else node.end_lineno or node.lineno
    return range(node.lineno, max(last, node.lineno) + 1)


def _statements_of(body: list[ast.stmt], around: tuple[ast.stmt, ...]) -> Iterator[_Statement]:
    for node in body:
        if isinstance(node, (*_FUNCTION, ast.ClassDef)):
            continue
        yield _Statement(node, around)
        for part in ("body", "orelse", "finalbody"):
            yield from _statements_of(getattr(node, part, []), (*around, node))
        for handler in getattr(node, "handlers", []):
            yield from _statements_of(handler.body, (*around, node))


def _heads_of(node: ast.stmt) -> list[ast.AST]:
    """The expressions of a statement without the statements inside it."""
    if not hasattr(node, "body"):
        return [node]
    heads = [getattr(node, part, None) for part in ("test", "iter", "target")]
    return [head for head in (*heads, *getattr(node, "items", ())) if head is not None]


def _describe(one: _Statement, origins: dict[str, set[str]]) -> None:
    """Note which names a statement sets or changes, and which it reads. ``origins`` are the objects
    that names are parts of: who changes ``group`` of ``opt.param_groups`` changes ``opt``."""
    for target in _assignment_targets(one.node):
        one.sets |= _targets_of(target)
        if isinstance(target, ast.Name):
            source = getattr(one.node, "iter", getattr(one.node, "value", None))
            origins[target.id] = _targets_of(source) if source is not None else set()
        else:
            one.sets |= set().union(*(origins.get(name, set()) for name in one.sets))
    if isinstance(one.node, ast.AugAssign):
        one.reads |= one.sets
    for head in _heads_of(one.node):
        one.reads |= _names_in(_loss_in(head))
        for call in _calls_in(head):
            if isinstance(call.func, ast.Attribute):
                one.sets |= _changed_by(call, one.node)
        one.sets |= {
            child.target.id
            for child in ast.walk(head)
            if isinstance(child, ast.NamedExpr) and isinstance(child.target, ast.Name)
        }
    for item in getattr(one.node, "items", ()):
        one.sets |= _targets_of(item.optional_vars) if item.optional_vars is not None else set()


def _loss_in(node: ast.AST) -> ast.AST:
    """The loss of a returned dictionary that names one, else the whole expression."""
    value = node.value if isinstance(node, ast.Return) else None
    if isinstance(value, ast.Dict):
        for key, part in zip(value.keys, value.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == "loss":
                return part
    return node


def _changed_by(call: ast.Call, node: ast.stmt) -> set[str]:
    """Names of objects that a method call may change: always if nothing takes its result."""
    alone = isinstance(node, ast.Expr) and node.value is call
    assert isinstance(call.func, ast.Attribute)
    known = call.func.attr in _CONTAINERS or alone
    return _targets_of(call.func.value) if known else set()
