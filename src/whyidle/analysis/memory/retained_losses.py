"""Lines of the user's program that keep the loss of every step: ``losses.append(loss)``. A loss
with its graph keeps all activations of its step alive. The stored source of the sampled files is
parsed, not run: a name with a ``.backward()`` call is a loss, and a line that appends or adds it
without ``.item()``, ``.detach()`` or ``float()`` keeps it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping

from whyidle.model.frames import own_files
from whyidle.model.process_facts import KeptLoss

_ADDERS = ("append", "add", "appendleft", "extend", "insert")


def find_kept_losses(stacks: Iterable[str], sources: Mapping[str, str]) -> tuple[KeptLoss, ...]:
    """Return file, line, function and text of every such line in the files of ``stacks``."""
    named = (name for name in own_files(stacks) if name in sources)
    return tuple(loss for name in named for loss in _in_source(name, sources[name]))


def _in_source(name: str, text: str) -> Iterator[KeptLoss]:
    try:
        tree = ast.parse(text)
    except (ValueError, SyntaxError, RecursionError):
        return
    losses = {
        node.func.value.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "backward"
        and isinstance(node.func.value, ast.Name)
    }
    lines = text.splitlines()
    for function, node in _function_statements(tree, "<module>"):
        if losses and _keeps_loss(node, losses):
            text = lines[node.lineno - 1].strip()[:120]
            yield KeptLoss(name, node.lineno, function, text)


def _function_statements(tree: ast.AST, function: str) -> Iterator[tuple[str, ast.stmt]]:
    for node in ast.iter_child_nodes(tree):
        inner = node.name if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else function
        if isinstance(node, ast.stmt):
            yield inner, node
        yield from _function_statements(node, inner)


def _keeps_loss(node: ast.stmt, losses: set[str]) -> bool:
    if isinstance(node, ast.AugAssign):
        return isinstance(node.op, ast.Add) and _is_loss(node.value, losses)
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return False
    return call.func.attr in _ADDERS and any(_is_loss(argument, losses) for argument in call.args)


def _is_loss(node: ast.expr, losses: set[str]) -> bool:
    if isinstance(node, ast.Tuple | ast.List):
        return any(_is_loss(part, losses) for part in node.elts)
    return isinstance(node, ast.Name) and node.id in losses
