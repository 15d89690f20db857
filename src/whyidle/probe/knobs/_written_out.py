"""Attention that a script writes out, as its text shows it: product, softmax, product.

Between the products the weights may be scaled, masked, cast and dropped out; they may be kept in
variables of that function, and nothing else may become of them: then what computes them can be put
off until the second product, where it is known what one kernel has to do (``_attending``). Each of
these operations is found here, and can be written as a call that does what it did.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Any, NamedTuple

from ._script import Script

ATTENDING = "__whyidle_attending__"
"""what the calls are methods of"""
METHODS = {
    "masked_fill": "masked",
    "softmax": "softmax",
    "mul": "scaled",
    "div": "divided",
    "add": "added",
}
"""of the weights, and what each becomes"""
CASTS = frozenset(("float", "to", "type_as"))
OPERATORS = {ast.Mult: "scaled", ast.Div: "divided", ast.Add: "added"}
SCOPES = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef


class Operation(NamedTuple):
    """``node`` is what it is now, ``kind`` what does the same, given these."""

    node: ast.AST
    kind: str
    args: list[ast.expr]
    keywords: list[ast.keyword]


class Attention:
    """What one function writes out. ``why``: where it is not attention alone."""

    def __init__(self, script: Script, function: ast.FunctionDef) -> None:
        self.script, self.function = script, function
        self.inside = list(ast.walk(function))
        shared = [one for one in self.inside if isinstance(one, ast.Global | ast.Nonlocal)]
        self.shared = {name for one in shared for name in one.names}
        self.why = ""
        self.found: dict[ast.AST, Operation] = {}
        for node in self.inside:
            product = self._product(node)
            if product and self._scope(node) is function:
                self.found |= self._followed(product)

    def _followed(self, product: Operation) -> dict[ast.AST, Operation]:
        """All that becomes of a product, if it is attention; else nothing."""
        found, todo, names = {product.node: product}, [product.node], set[str]()
        looking: list[ast.AST] = []
        while todo:
            node = todo.pop()
            around = self.script.around[node]
            if name := _kept_in(around, node):
                uses = [] if name in names else self._uses(name, product.node)
                names.add(name)
                found |= {one.node: one for use in uses if (one := self._in_place(use))}
                todo += [use for use in uses if isinstance(use.ctx, ast.Load)]
                looking += [use for use in uses if self._strange(use)]
            elif step := self._step(node, around):
                found[step.node] = step
                todo += [step.node] if step.kind != "attended" else []
            else:
                looking.append(node)
        kinds = {one.kind for one in found.values()}
        if looking and "softmax" in kinds:
            line = min(getattr(node, "lineno", 0) for node in looking)
            self.why = f"line {line} may look at the weights"
        whole = "attended" in kinds and kinds & {"softmax", "applied"} and not looking
        return found if whole and len({self._block(node) for node in found}) == 1 else {}

    def _strange(self, use: ast.Name) -> bool:
        """Whether a variable is used by another function as well, or changed in other ways."""
        around = self.script.around[use]
        changed = isinstance(around, ast.AugAssign) and around.target is use
        if changed and not self._in_place(use):
            return True
        return self._scope(use) is not self.function or use.id in self.shared

    def _step(self, node: Any, around: Any) -> Operation | None:
        """What is done with it next; None where that is not known."""
        if isinstance(around, ast.BinOp):
            return self._operator(node, around)
        if isinstance(around, ast.Attribute):
            call = self.script.around[around]
            if not isinstance(call, ast.Call) or call.func is not around:
                return None
            if around.attr in CASTS:
                said: list[ast.expr] = [node, ast.Constant(around.attr), *call.args]
                return Operation(call, "cast", said, call.keywords)
            kind = METHODS.get(around.attr)
            if around.attr == "matmul" and len(call.args) == 1:
                kind = "attended"
            return Operation(call, kind, [node, *call.args], call.keywords) if kind else None
        if isinstance(around, ast.Call) and around.args[:1] == [node]:
            return self._called(around)
        return None

    def _operator(self, node: ast.expr, around: ast.BinOp) -> Operation | None:
        """The weights are on the left of a product and of a quotient, anywhere else."""
        left = around.left is node
        other = around.right if left else around.left
        if isinstance(around.op, ast.MatMult):
            return Operation(around, "attended", [node, other], []) if left else None
        if isinstance(around.op, ast.Div) and not left:
            return None
        kind = OPERATORS.get(type(around.op))
        return Operation(around, kind, [node, other], []) if kind else None

    def _in_place(self, use: ast.Name) -> Operation | None:
        """``scores *= scale``, which is as good as another one where nobody else has them."""
        around = self.script.around[use]
        if not isinstance(around, ast.AugAssign) or around.target is not use:
            return None
        if type(around.op) not in OPERATORS:
            return None
        own = ast.copy_location(ast.Name(use.id, ast.Load()), use)
        return Operation(around, OPERATORS[type(around.op)], [own, around.value], [])

    def _called(self, call: ast.Call) -> Operation | None:
        """Of a function that is given it first."""
        name = self.torchs(call.func)
        if name in ("matmul", "bmm") and len(call.args) == 2 and not call.keywords:
            return Operation(call, "attended", call.args, [])
        if name == "dropout" or (name == "softmax" and len(call.args) + len(call.keywords) >= 2):
            return Operation(call, name, call.args, call.keywords)
        own = ast.unparse(call.func).startswith("self.")
        if own and len(call.args) == 1 and not call.keywords:
            return Operation(call, "applied", [call.args[0], call.func], [])
        return None

    def _product(self, node: ast.AST) -> Operation | None:
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult):
            return Operation(node, "product", [node.left, node.right], [])
        if not isinstance(node, ast.Call) or node.keywords:
            return None
        if len(node.args) == 2 and self.torchs(node.func) in ("matmul", "bmm"):
            return Operation(node, "product", node.args, [])
        method = isinstance(node.func, ast.Attribute) and node.func.attr == "matmul"
        if method and len(node.args) == 1 and isinstance(node.func, ast.Attribute):
            return Operation(node, "product", [node.func.value, *node.args], [])
        return None

    def torchs(self, function: ast.expr) -> str:
        """The name of a function of PyTorch's that may be a part of attention."""
        import torch

        first, *rest = ast.unparse(function).split(".")
        given = self.script.given_by(first)
        if not all(isinstance(one, ast.alias) for one in given):
            return ""
        found = self.script.meanings.get(first)
        for each in rest:
            found = getattr(found, "__dict__", {}).get(each)
        home = torch.nn.functional
        known = {
            "softmax": (torch.softmax, home.softmax),
            "dropout": (home.dropout,),
            "matmul": (torch.matmul,),
            "bmm": (torch.bmm,),
        }
        return next((name for name, some in known.items() if any(found is o for o in some)), "")

    def _uses(self, name: str, product: Any) -> list[ast.Name]:
        """Of a variable; before the product, and not in a loop with it, it holds something else."""
        uses = [node for node in self.inside if isinstance(node, ast.Name) and node.id == name]
        if any(isinstance(one, ast.For | ast.AsyncFor | ast.While) for one in self._above(product)):
            return uses
        return [one for one in uses if (one.lineno, one.col_offset) >= _start(product)]

    def _above(self, node: ast.AST) -> Iterator[ast.AST]:
        while node is not self.function:
            node = self.script.around[node]
            yield node

    def _scope(self, node: ast.AST) -> ast.AST:
        return next(one for one in self._above(node) if isinstance(one, SCOPES))

    def _block(self, node: ast.AST) -> ast.AST:
        """The ``with`` that it is in: another one may compute in another precision."""
        blocks = (one for one in self._above(node) if isinstance(one, ast.With | ast.AsyncWith))
        return next(blocks, self.function)


def _start(product: Any) -> tuple[int, int]:
    return product.lineno, product.col_offset


def _kept_in(around: ast.AST, node: ast.AST) -> str:
    """The variable that is set to it, where that is all that is done."""
    if not isinstance(around, ast.Assign) or around.value is not node or len(around.targets) != 1:
        return ""
    target = around.targets[0]
    return target.id if isinstance(target, ast.Name) else ""


class Rewriting(ast.NodeTransformer):
    """Writes each operation that was found as a call."""

    def __init__(self, found: dict[ast.AST, Operation]) -> None:
        self.found = found

    def visit(self, node: ast.AST) -> Any:
        """Of the tree that it was found in."""
        operation = self.found.get(node)
        if operation is None:
            return self.generic_visit(node)
        args = [self.visit(one) for one in operation.args]
        keywords = [ast.keyword(one.arg, self.visit(one.value)) for one in operation.keywords]
        what = ast.Attribute(ast.Name(ATTENDING, ast.Load()), operation.kind, ast.Load())
        made: ast.AST = ast.Call(what, args, keywords)
        if isinstance(node, ast.AugAssign):
            made = ast.Assign([node.target], made)  # type: ignore[arg-type]
        return ast.fix_missing_locations(ast.copy_location(made, node))
