"""Statements of the training loop that compute the same again, by the source: a data set that
every epoch builds anew; and, where the data set gives the same samples in every epoch, a frozen
network on the pictures, or a distance transform of the labels.

The source is parsed, not run. Known as fixed are names that the file sets once and never changes,
the variables of a loop over batches, a batch that a trainer passes, and what is computed from them
by functions that the source shows to be neither random nor trained. All else, such as a network
that an optimizer updates, is not.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from typing import Final, NamedTuple

from whyidle.analysis.lines.source_statements import (
    FUNCTION,
    assignment_targets,
    called_name,
    calls_in,
    heads_of,
    is_training_call,
    parse_source,
    targets_of,
)

_RANDOM: Final = re.compile(
    r"rand|drop|normal_|multinomial|bernoulli|poisson|perm|noise|augment|sample|shuffle|choice|"
    r"jitter|uniform|(^|_)(get|load|next|pop|put|read|seed|step|time)(_|$)",
    re.IGNORECASE,
)
"""names of functions whose result may differ from call to call, or that may change something"""
_TRAINED: Final = re.compile(r"requires_grad|Parameter|\b(nn|optim|models?|module)\b|[A-Z]\w*\(")
"""values that an optimizer may change, or objects with a state of their own"""
_LIBRARIES: Final = frozenset({"numpy", "scipy", "torch", "torchvision", "cv2", "skimage", "math"})
_BUILTINS: Final = frozenset(
    {"abs", "all", "any", "bool", "dict", "enumerate", "float", "int", "len", "list", "map", "max"}
    | {"min", "range", "reversed", "round", "set", "sorted", "str", "sum", "tuple", "zip"}
)
_MOVES: Final = frozenset(
    {"to", "cuda", "cpu", "numpy", "detach", "float", "half", "bfloat16", "double", "long", "int"}
    | {"bool", "view", "reshape", "flatten", "permute", "transpose", "contiguous", "squeeze"}
    | {"unsqueeze", "expand", "clone", "size", "dim", "astype", "item", "from_numpy", "tensor"}
    | {"stack", "cat", "as_tensor"}
)
"""methods that move or reshape, and are no work to keep a result of"""
_BATCH: Final = {"training_step": "batch"}
"""functions that a trainer calls -> the parameter that is the batch"""


class FixedLines(NamedTuple):
    """Lines of a file whose statements compute the same again."""

    of_samples: frozenset[int] = frozenset()
    """for the same samples"""
    of_epochs: frozenset[int] = frozenset()
    """in every epoch, whatever the samples"""


@lru_cache(maxsize=64)
def find_fixed_lines(text: str) -> FixedLines:
    """Return such lines of a file by its text; none of a file that is no Python."""
    tree = parse_source(text)
    return _Source(tree, text).lines() if tree is not None else FixedLines()


class _Source:
    """A file: its functions, classes, imports and frozen networks."""

    def __init__(self, tree: ast.Module, text: str) -> None:
        self._tree, self._text = tree, text
        nodes = list(ast.walk(tree))
        self._classes = {node.name: node for node in nodes if isinstance(node, ast.ClassDef)}
        self._functions = {node.name: node for node in nodes if isinstance(node, ast.FunctionDef)}
        bodies = [node for kind in nodes if isinstance(kind, ast.ClassDef) for node in kind.body]
        marks = [map(ast.unparse, getattr(one, "decorator_list", ())) for one in bodies]
        self._bound = [one for one, m in zip(bodies, marks, strict=True) if "staticmethod" not in m]
        """methods, whose first parameter is the object, whatever its name"""
        self._imports = dict(_imports_of(nodes))
        self._made = {
            name: node.value
            for node in nodes
            if isinstance(node, ast.Assign)
            for name in _plain(node.targets[0])
        }
        self._once = set(_names_set_once(tree))
        self._found: set[int] = set()
        self._light: frozenset[str] = frozenset()
        """functions that are no work to keep a result of"""
        self._seen: set[tuple[str, frozenset[str]]] = set()
        self._pure: dict[str, bool] = {}
        self._is_wrong = False

    def lines(self) -> FixedLines:
        """Read each loop over batches, what it calls, and the loop over epochs around it."""
        loops = [node for node in ast.walk(self._tree) if isinstance(node, ast.For)]
        batches = [loop for loop in loops if _is_over_batches(loop)]
        for loop in loops:
            if loop not in batches and any(inner in loop.body for inner in batches):
                self._read([node for node in loop.body if node not in batches], set(self._once))
        of_epochs, self._found, self._light = self._found, set(), _MOVES | _BUILTINS
        self._seen.clear()
        for loop in batches:
            self._read(loop.body, _batch_names(loop))
        for node in ast.walk(self._tree):
            if isinstance(node, ast.FunctionDef) and node.name in _BATCH:
                self._read(node.body, {arg.arg for arg in node.args.args} & {_BATCH[node.name]})
        if self._is_wrong:
            return FixedLines()
        return FixedLines(frozenset(self._found), frozenset(of_epochs))

    def _read(self, body: list[ast.stmt], fixed: set[str]) -> None:
        """Follow the names that are ``fixed`` through statements in their order."""
        for node in body:
            if isinstance(node, (*FUNCTION, ast.ClassDef)):
                continue
            test = getattr(node, "test", None)
            if isinstance(node, ast.Try | ast.Match) or (test and not self._is_fixed(test, fixed)):
                # whether it is done may differ: a flip in every second step
                fixed -= {name for part in ast.walk(node) for name in _variables_of(part)}
                continue
            for head in heads_of(node):
                self._enter_calls(head, fixed)
            value = getattr(node, "value", None)
            names = set().union(*map(targets_of, targets := assignment_targets(node)))
            same = isinstance(node, ast.Assign) and self._is_fixed(node.value, fixed)
            if same and all(map(_plain, targets)):
                fixed |= names
                if self._is_work(node):
                    self._found.update(range(node.lineno, (node.end_lineno or 0) + 1))
            else:
                fixed -= names
                if isinstance(value, ast.Call):  # alone on its line: it may change its object
                    fixed -= _first_names(value)
            for part in ("body", "orelse", "finalbody"):
                self._read(getattr(node, part, []), fixed)

    def _enter_calls(self, head: ast.AST, fixed: set[str]) -> None:
        """Read functions of the user that get what is fixed; drop what a call changes in place."""
        for call in calls_in(head):
            root = getattr(_root(call.func), "id", "")
            if called_name(call).endswith("_"):
                fixed -= _first_names(call)
            elif is_training_call(call):  # of a loss that is fixed, nothing could be learned
                parts = [getattr(call.func, "value", call.func), *call.args[:1]]
                self._is_wrong |= any(self._is_fixed(part, fixed) for part in parts)
            if (function := self._function_of(call)) is None:
                continue
            of_object = function in self._bound and root not in self._classes
            parameters = [*function.args.posonlyargs, *function.args.args]
            names = [arg.arg for arg in parameters[of_object:]]
            given = {
                name
                for name, value in zip(names, call.args, strict=False)
                if self._is_fixed(value, fixed)
            }
            given |= {w.arg for w in call.keywords if w.arg and self._is_fixed(w.value, fixed)}
            key = function.name, frozenset(given)
            if given and key not in self._seen:
                self._seen.add(key)
                self._read(function.body, given)

    def _function_of(self, call: ast.Call) -> ast.FunctionDef | None:
        """The user's function that is called, or the ``forward`` of the user's class."""
        name = called_name(call)
        made = self._made.get(name)
        kind = self._classes.get(called_name(made)) if isinstance(made, ast.Call) else None
        methods = kind.body if kind is not None else []
        forward = (m for m in methods if isinstance(m, ast.FunctionDef) and m.name == "forward")
        return next(forward, None) or self._functions.get(name)

    def _is_fixed(self, value: ast.AST, fixed: set[str]) -> bool:
        """Whether an expression has the same value for the same samples."""
        inner = {name for part in ast.walk(value) for name in _variables_of(part)}
        reads = {
            node.id
            for node in ast.walk(value)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        }
        calls = [node for node in ast.walk(value) if isinstance(node, ast.Call)]
        functions = {id(_root(call.func)) for call in calls}
        data = {
            node.id
            for node in ast.walk(value)
            if isinstance(node, ast.Name) and id(node) not in functions
        }
        return (
            bool(reads & fixed)
            and all(self._is_constant(name) for name in data - fixed - inner)
            and all(self._is_same_call(call, fixed | inner) for call in calls)
        )

    def _is_constant(self, name: str) -> bool:
        """Whether a name is a module, a function, a built-in, or set once and never changed."""
        known = name in self._imports or name in _BUILTINS or self._is_pure(name)
        return known or name in self._once

    def _is_same_call(self, call: ast.Call, fixed: set[str]) -> bool:
        """Whether a call gives the same result for the same arguments, and changes nothing."""
        name, root = called_name(call), getattr(_root(call.func), "id", "")
        named = (part for part in _names_of_call(call.func) if part not in fixed)
        if any(map(_RANDOM.search, named)) or name.endswith("_"):
            return False
        if root in self._made and root not in fixed:
            return self._is_frozen(root)
        if isinstance(call.func, ast.Attribute) and root not in self._imports:
            return root in fixed or root == "" or root in _BUILTINS
        if root in self._imports:
            return self._imports[root].partition(".")[0] in _LIBRARIES
        return name in _BUILTINS or self._is_pure(name)

    def _is_pure(self, name: str) -> bool:
        """Whether the user's function computes from its arguments alone."""
        if name not in self._functions or name in self._made:
            return False
        if name not in self._pure:
            self._pure[name] = False  # a recursion is not followed
            function = self._functions[name]
            own = {arg.arg for arg in function.args.args}
            own |= {name for part in ast.walk(function) for name in _variables_of(part)}
            calls = (node for node in ast.walk(function) if isinstance(node, ast.Call))
            shared = (ast.Global, ast.Nonlocal, ast.Yield, ast.Await)
            self._pure[name] = (
                function not in self._bound
                and not any(isinstance(node, shared) for node in ast.walk(function))
                and all(self._is_same_call(call, own) for call in calls)
                and all(
                    node.id in own or self._is_constant(node.id)
                    for node in ast.walk(function)
                    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
                )
            )
        return self._pure[name]

    def _is_frozen(self, name: str) -> bool:
        """Whether a network is in evaluation mode, no optimizer has its parameters, and nothing
        else is done with them; nobody else gets it, unless it has no gradients."""
        made = self._made[name]
        switched = rf"\b{re.escape(name)}\.eval\(\)"
        if ".eval()" not in ast.unparse(made) and not re.search(switched, self._text):
            return False
        used = rf"\b{re.escape(name)}\.(train|parameters|state_dict|load_state_dict|named_\w+)\("
        named = re.findall(used, self._text)
        each = rf"for \w+ in {re.escape(name)}\.parameters\(\):"
        loops = rf"{each}\s+\w+\.requires_grad(?: = |_\()False"
        off = r"\.requires_grad_\(False\)"
        is_off = re.search(loops, self._text) or re.search(rf"\b{name}{off}", self._text)
        is_off = is_off or re.search(off, ast.unparse(made))
        given = re.search(rf"[(,*=]\s*{re.escape(name)}\s*[,)]", self._text)
        return len(named) <= len(re.findall(loops, self._text)) and bool(is_off or not given)

    def _is_work(self, value: ast.AST) -> bool:
        """Whether a value takes more than moving or reshaping a sample."""
        calls = (node for node in ast.walk(value) if isinstance(node, ast.Call))
        return any(called_name(call) not in self._light for call in calls)


def _names_set_once(tree: ast.Module) -> Iterator[str]:
    """Names that the file's own code sets once outside of loops, to what no optimizer trains, and
    that nothing seems to change."""
    set_at = Counter(name for node in ast.walk(tree) for name in _variables_of(node))
    changed = {
        name
        for node in ast.walk(tree)
        for target in assignment_targets(node)
        if not isinstance(target, ast.Name | ast.Tuple) or isinstance(node, ast.AugAssign)
        for name in targets_of(target)
    }
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    for made in (one for one in calls if "optim" in ast.unparse(one.func).lower()):
        changed |= {part.id for part in ast.walk(made) if isinstance(part, ast.Name)}
    alone = (node.value for node in ast.walk(tree) if isinstance(node, ast.Expr))
    for call in alone:
        if isinstance(call, ast.Call):
            changed |= _first_names(call)
    for node in tree.body:
        if isinstance(node, ast.Assign) and not _TRAINED.search(ast.unparse(node.value)):
            for target in node.targets:
                yield from (n for n in _plain(target) if set_at[n] == 1 and n not in changed)


def _is_over_batches(loop: ast.For) -> bool:
    """Whether a loop trains on what a loader gives, and not on a counter."""
    inner = (node for part in loop.body for node in ast.walk(part))
    calls = [node for node in inner if isinstance(node, ast.Call)]
    counts = isinstance(loop.iter, ast.Call) and called_name(loop.iter) in ("range", "trange")
    loops = (n for part in loop.body for n in ast.walk(part) if isinstance(n, ast.For))
    return (
        not counts and any(map(is_training_call, calls)) and not any(map(_is_over_batches, loops))
    )


def _batch_names(loop: ast.For) -> set[str]:
    target = loop.target
    counted = isinstance(loop.iter, ast.Call) and called_name(loop.iter) == "enumerate"
    if counted and isinstance(target, ast.Tuple) and len(target.elts) > 1:
        return set().union(*map(targets_of, target.elts[1:]))
    return targets_of(target)


def _variables_of(node: ast.AST) -> set[str]:
    """Names that a comprehension, a loop or an assignment inside an expression or function sets."""
    if isinstance(node, ast.comprehension | ast.For | ast.NamedExpr):
        return targets_of(node.target)
    return (
        set().union(*map(targets_of, assignment_targets(node)))
        if isinstance(node, ast.stmt)
        else set()
    )


def _plain(target: ast.AST) -> set[str]:
    """Names of a target that is a name or a tuple of them; none of any other."""
    names = target.elts if isinstance(target, ast.Tuple) else [target]
    plain = {node.id for node in names if isinstance(node, ast.Name)}
    return plain if len(plain) == len(names) else set()


def _first_names(call: ast.Call) -> set[str]:
    """The object that a method is called on, and plain arguments: a call alone may change them."""
    objects = [_root(call.func), *call.args]
    return {node.id for node in objects if isinstance(node, ast.Name)}


def _root(node: ast.AST) -> ast.AST:
    """What a dotted expression begins with: a name, or the result of a call or an operation."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        node = node.value
    return node


def _names_of_call(node: ast.AST) -> Iterator[str]:
    """Names of a dotted expression, the last one first."""
    while isinstance(node, ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Attribute):
            yield node.attr
        node = node.value
    if isinstance(node, ast.Name):
        yield node.id


def _imports_of(nodes: list[ast.AST]) -> Iterator[tuple[str, str]]:
    for node in nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            module = getattr(node, "module", None)
            for alias in node.names:
                name = alias.asname or alias.name.partition(".")[0]
                yield name, f"{module}.{alias.name}" if module else alias.name
