"""What expressions of the user's source do besides their value, where the source proves it.

A call is *proven* if it only computes a value, reports (prints, logs, draws, writes a file), or
changes a plain container. Known functions of known libraries are, methods of numbers and tensors
that return a new value, and functions of the user all of whose statements are. Everything else may
move weights, random numbers, samplers or schedules, and is not.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Final

from whyidle.analysis.lines.source_statements import FUNCTION, called_name, last_name, targets_of


def _read_names(kind: str) -> re.Pattern[str]:
    """Return the names of one kind in the table of known calls."""
    table = files(__package__).joinpath("known_calls.tsv").read_text("utf-8")
    rows = (line.split("\t") for line in table.splitlines() if line[0] != "#")
    return re.compile("|".join(f"(?:{names})" for this, names in rows if this == kind))


_BUILTINS: Final = _read_names("builtin")
_CONSUMERS: Final = _read_names("taker")
"""calls that take everything from an iterator given to them"""
_METHODS: Final = _read_names("method")
"""methods of tensors, texts and containers that only return a value"""
_FRESH: Final = _read_names("fresh")
"""calls whose result shares nothing with their arguments"""
_ASKS: Final = _read_names("question")
"""methods of models and tensors that do not change them, whatever their class"""
_COMPUTES: Final = _read_names("computes")
_CHANCE: Final = _read_names("chance")
"""last names of such functions that draw random numbers or change their argument"""
_REPORTS: Final = _read_names("reports")
_WRITES: Final = _read_names("writes")
_READS: Final = _read_names("reads")
_TRAINERS: Final = _read_names("trainer")
_DECORATORS: Final = _read_names("decorator")
"""decorators that call the function and do nothing else of note"""
_APPENDS: Final = frozenset({"append", "extend", "appendleft"})
_GROWS: Final = _APPENDS | frozenset(
    {"add", "update", "insert", "setdefault", "clear", "pop", "popleft", "popitem"}
)
_MAKES_CONTAINER: Final = frozenset({"list", "dict", "set", "deque", "defaultdict", "Counter"})
_DISPLAYS: Final = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)
_VALUES: Final = (ast.BinOp, ast.Compare, ast.Constant, ast.UnaryOp, ast.JoinedStr, ast.BoolOp)
_LEAVES: Final = (ast.Raise, ast.Assert, ast.Delete, ast.Import, ast.ImportFrom)


class Effects:
    """What the expressions of one file do."""

    def __init__(self, tree: ast.Module) -> None:
        self._imports = dict(_read_imports(tree))
        self._bound = {
            node.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        } | {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
        self.modules = self._imports.keys() - self._bound
        """names of imports"""
        self.functions: dict[str, list[tuple[Effects, ast.AST]]] = {}
        """functions of all files by name"""
        self.files = frozenset[str]()
        """names of the program's files, without folder and ending"""
        self.read_attributes = frozenset[str]()
        """those that some file of the program reads; others are for code that is not shown"""
        self.writes_are_read = False
        """whether some file of the program reads files"""
        self.reads_files = any(
            isinstance(node, ast.Call)
            and (self._opens(node, "r") or _READS.fullmatch(called_name(node)))
            for node in ast.walk(tree)
        )
        self._kinds: dict[str, set[str]] = {}
        self._sized = set(_sized_names(tree))
        self._learn_kinds(tree, looped=False, lasting=True)
        self._judged: dict[int, bool] = {}
        self._changing: dict[str, bool] = {}

    def is_proven(self, statement: ast.stmt, heads: list[ast.AST]) -> bool:
        """Return whether a statement only computes, reports or changes plain containers."""
        if isinstance(statement, _LEAVES):
            return False
        if not all(self._is_sound_target(one) for one in _targets(statement)):
            return False
        if isinstance(statement, ast.AugAssign) and not self._is_own(statement.target):
            return False
        return all(map(self.is_pure, heads))

    def is_pure(self, expression: ast.AST, but: ast.AST | None = None) -> bool:
        """Return whether an expression is proven; one call of it, ``but``, is not looked at."""
        for node in ast.walk(expression):
            if isinstance(node, ast.Await | ast.Yield | ast.YieldFrom):
                return False
            if isinstance(node, ast.Call) and node is not but and not self._is_proven_call(node):
                return False
            if isinstance(node, ast.comprehension | ast.Starred):
                taken = node.iter if isinstance(node, ast.comprehension) else node.value
                if self._kind(taken) == "object":
                    return False
            if isinstance(node, ast.Subscript) and self._kind(node.value) == "object":
                return False
            if self._mentions_effect(node):
                return False
        return True

    def _mentions_effect(self, node: ast.AST) -> bool:
        """Whether a name is one of the user's functions that does more than compute."""
        if not isinstance(node, ast.Name | ast.Attribute):
            return False
        dotted = self._full_name(node)
        if dotted is not None and self.files.isdisjoint(dotted.split(".")[:-1]):
            return False
        name = node.id if isinstance(node, ast.Name) else node.attr
        return name in self.functions and not self._is_harmless(name)

    def consumed_in(self, expression: ast.AST) -> Iterator[ast.expr]:
        """Yield what an expression may take from an iterator."""
        for node in ast.walk(expression):
            taken: list[ast.expr] = []
            if isinstance(node, ast.comprehension):
                taken = [node.iter]
            elif isinstance(node, ast.Call) and _CONSUMERS.fullmatch(called_name(node)):
                taken = node.args
            elif isinstance(node, ast.Starred):
                taken = [node.value]
            yield from (one for one in taken if not self.is_sized(one))

    def is_sized(self, node: ast.AST) -> bool:
        """Return whether going through a value leaves it as it was."""
        if isinstance(node, ast.Name | ast.Attribute):
            return self._kind(node) in ("container", "value") or last_name(node) in self._sized
        return not isinstance(node, ast.Subscript | ast.Starred | ast.NamedExpr | ast.IfExp)

    def holds(self, name: str) -> bool:
        """Return whether a name is only ever given new lists, dictionaries and the like."""
        return self._kinds.get(name) == {"container"}

    def reports(self, name: str) -> bool:
        """Return whether a name is only ever given loggers, files that are written and such."""
        return self._kinds.get(name) == {"report"}

    def is_number(self, target: ast.AST) -> bool:
        """Return whether a name is only ever given numbers and new tensors."""
        return isinstance(target, ast.Name) and self._kind(target) == "value"

    def is_fresh(self, node: ast.AST) -> bool:
        """Return whether a value shares nothing with what it is computed from."""
        if isinstance(node, ast.Call):
            name = called_name(node)
            return bool(_FRESH.fullmatch(name)) and name not in self.functions
        return isinstance(node, _VALUES) and not isinstance(node, ast.BoolOp)

    def changes_arguments(self, name: str) -> bool:
        """Return whether a function of the user changes what it is given."""
        if name not in self._changing:
            self._changing[name] = self._find_changes(name)
        return self._changing[name]

    def _find_changes(self, name: str) -> bool:
        for effects, function in self.functions.get(name, ()):
            given = {one.arg for one in ast.walk(function) if isinstance(one, ast.arg)}
            for node in ast.walk(function):
                changed = [one for one in _targets(node) if not isinstance(one, ast.Name)]
                changed += [node.target] if isinstance(node, ast.AugAssign) else []
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                    changed += [node.func.value] if node.func.attr in _GROWS else []
                changed += effects.consumed_in(node) if isinstance(node, ast.expr) else []
                if any(targets_of(one) & given for one in changed):
                    return True
        return False

    def _is_sound_target(self, target: ast.AST) -> bool:
        if isinstance(target, ast.Tuple | ast.List):
            return all(self._is_sound_target(one) for one in target.elts)
        if isinstance(target, ast.Attribute):
            own = isinstance(target.value, ast.Name) and target.value.id == "self"
            return own and target.attr in self.read_attributes
        if isinstance(target, ast.Subscript):
            return self._kind(target.value) in ("container", "value", "given")
        return isinstance(target, ast.Name)

    def _is_own(self, target: ast.AST) -> bool:
        """Whether what is added to is a number, a new tensor, or a container."""
        return self._kind(target) in ("value", "container")

    def _is_proven_call(self, call: ast.Call) -> bool:
        function, name = call.func, called_name(call)
        if any(word.arg in ("out", "inplace", "key", "default") for word in call.keywords) and not (
            all(isinstance(w.value, ast.Lambda) for w in call.keywords if w.arg == "key")
            and all(w.arg == "key" for w in call.keywords)
        ):
            return False
        taken = [
            one for one in call.args if _CONSUMERS.fullmatch(name) and self._kind(one) == "object"
        ]
        dotted = self._full_name(function)
        if dotted is not None and self.files.isdisjoint(dotted.split(".")[:-1]):
            return not taken and self._is_known(dotted)
        if name in self.functions:
            return self._is_harmless(name)
        if isinstance(function, ast.Name):
            if name == "open":
                return self._opens(call, "wax") and not self.writes_are_read
            return bool(_BUILTINS.fullmatch(name)) and name not in self._bound and not taken
        if not isinstance(function, ast.Attribute):
            return False
        kind = self._kind(function.value)
        if name in _GROWS:
            return kind == "container" or (kind == "given" and name in _APPENDS)
        if kind == "report":
            return True
        if name in ("log", "log_dict") and isinstance(function.value, ast.Name):
            roots = {path.partition(".")[0] for path in self._imports.values()}
            return function.value.id == "self" and any(map(_TRAINERS.fullmatch, roots))
        return bool((_ASKS if kind == "object" else _METHODS).fullmatch(name))

    def _is_known(self, dotted: str) -> bool:
        last = dotted.rpartition(".")[2]
        if _CHANCE.fullmatch(last):
            return False
        if _WRITES.fullmatch(dotted):
            return not self.writes_are_read
        if dotted == f"torch.{last}" and _METHODS.fullmatch(last):
            return True
        return bool(_COMPUTES.fullmatch(dotted) or _REPORTS.fullmatch(dotted))

    def _is_harmless(self, name: str) -> bool:
        """Whether all functions of a name are proven; asked again inside, it is assumed."""
        return all(effects._judge_function(function) for effects, function in self.functions[name])

    def _judge_function(self, function: ast.AST) -> bool:
        if id(function) not in self._judged:
            self._judged[id(function)] = True
            decorators = map(self._name_decorator, getattr(function, "decorator_list", ()))
            self._judged[id(function)] = (
                not isinstance(function, ast.AsyncFunctionDef | ast.ClassDef)
                and all(map(_DECORATORS.fullmatch, decorators))
                and all(
                    self.is_proven(one, []) if isinstance(one, ast.stmt) else True
                    for one in ast.walk(function)
                )
                and all(self.is_pure(one) for one in getattr(function, "body", ()))
            )
        return self._judged[id(function)]

    def _name_decorator(self, node: ast.AST) -> str:
        node = node.func if isinstance(node, ast.Call) else node
        return self._full_name(node) or last_name(node)

    def _full_name(self, node: ast.AST) -> str | None:
        """The full name of what is imported, such as ``torch.nn.functional.softmax``."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self._imports or node.id in self._bound:
            return None
        return ".".join([self._imports[node.id], *reversed(parts)])

    def _opens(self, call: ast.Call, modes: str) -> bool:
        if called_name(call) != "open":
            return False
        given = [*call.args[1:2], *(word.value for word in call.keywords if word.arg == "mode")]
        mode = given[0].value if given and isinstance(given[0], ast.Constant) else "r"
        return str(mode)[:1] in modes and "+" not in str(mode)

    def _kind(self, node: ast.AST) -> str:
        """What a value is: a "container", "value" (numbers, tensors), "report" (a writer), "object"
        of a class that is not known, "given" by a caller or a loop; "" if several."""
        if isinstance(node, ast.Subscript):
            return self._kind(node.value)
        if isinstance(node, ast.Attribute) and self._full_name(node) is None:
            kinds = self._kinds.get(f".{node.attr}", {"attribute"})
        elif isinstance(node, ast.Name):
            kinds = self._kinds.get(node.id, {"object" if node.id in self.modules else "given"})
        else:
            return self._kind_of_value(node, lasting=False)
        return next(iter(kinds)) if len(kinds) == 1 else "object" if "object" in kinds else ""

    def _kind_of_value(self, node: ast.AST, *, lasting: bool) -> str:
        if isinstance(node, _DISPLAYS):
            return "container"
        if isinstance(node, _VALUES):
            return "value"
        if not isinstance(node, ast.Call):
            return "other"
        name, dotted = called_name(node), self._full_name(node.func)
        if name in _MAKES_CONTAINER and name not in self._bound:
            return "container"
        if name == "open" or (dotted and (_REPORTS.fullmatch(dotted) or _WRITES.fullmatch(dotted))):
            return "report"
        if (dotted and self._is_known(dotted)) or (_BUILTINS.fullmatch(name) and not dotted):
            return "value"
        if isinstance(node.func, ast.Attribute) and not dotted and _METHODS.fullmatch(name):
            return "value"
        if isinstance(node.func, ast.Attribute) and self._kind(node.func.value) == "report":
            return "report"
        return "object" if lasting else "other"

    def _learn_kinds(self, node: ast.AST, *, looped: bool, lasting: bool) -> None:
        """Learn what names hold, from all assignments of the file. What a call makes outside of
        loops outlives a step."""
        for child in ast.iter_child_nodes(node):
            if isinstance(child, FUNCTION):
                loops = any(isinstance(one, ast.For | ast.While) for one in ast.walk(child))
                self._learn_kinds(child, looped=False, lasting=loops or child.name == "__init__")
                continue
            for target, value in _bindings(child):
                lasts = isinstance(child, ast.withitem) or (lasting and not looped)
                kind = self._kind_of_value(value, lasting=lasts) if value else "given"
                for name in _plain_names(target):
                    self._kinds.setdefault(name, set()).add(kind)
            inside = looped or isinstance(child, ast.For | ast.While)
            self._learn_kinds(child, looped=inside, lasting=lasting)


def _bindings(node: ast.AST) -> Iterator[tuple[ast.AST, ast.expr | None]]:
    """What a node binds, and the value if it shows one."""
    if isinstance(node, ast.arg):
        yield ast.Name(node.arg), None
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield node.optional_vars, node.context_expr
    elif isinstance(node, ast.For | ast.AsyncFor):
        yield node.target, None
    elif isinstance(node, ast.Assign | ast.AnnAssign | ast.NamedExpr) and node.value is not None:
        for target in _targets(node):
            yield target, node.value


def _targets(node: ast.AST) -> list[ast.AST]:
    if isinstance(node, ast.Assign):
        return list(node.targets)
    if isinstance(node, ast.AugAssign | ast.AnnAssign | ast.For | ast.AsyncFor | ast.NamedExpr):
        return [node.target]
    return []


def _plain_names(target: ast.AST | None) -> Iterator[str]:
    """Names and attributes that an assignment binds anew."""
    if isinstance(target, ast.Tuple | ast.List):
        for one in target.elts:
            yield from _plain_names(one)
    elif isinstance(target, ast.Name):
        yield target.id
    elif isinstance(target, ast.Attribute):
        yield f".{target.attr}"


def _read_imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Names that imports bind, and their full names."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for one in node.names:
                yield (
                    one.asname or one.name.partition(".")[0],
                    (one.name if one.asname else one.name.partition(".")[0]),
                )
        elif isinstance(node, ast.ImportFrom):
            for one in node.names:
                yield one.asname or one.name, f"{'.' * node.level}{node.module or ''}.{one.name}"


def _sized_names(tree: ast.Module) -> Iterator[str]:
    """Names of what is indexed, measured or computed with: no iterator can be."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript):
            yield last_name(node.value)
        elif isinstance(node, ast.Call) and called_name(node) == "len" and node.args:
            yield last_name(node.args[0])
        elif isinstance(node, ast.Attribute) and _METHODS.fullmatch(node.attr):
            yield last_name(node.value)
