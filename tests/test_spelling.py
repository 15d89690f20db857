"""Analysis, causes and fixes read roles: how a framework spells its names stays in frameworks/."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import whyidle
from whyidle.frameworks.torch.names import RULES

ROOT = Path(whyidle.__file__).parent
NEUTRAL = ("analysis", "causes", "fixes")
STILL_SPELLED = {"gil_waits.py", "sample_classification.py", "worker_samples.py"}
"""how frames of stack samples are read: what is left to be told by roles"""
FILES = sorted(
    path
    for layer in NEUTRAL
    for path in (ROOT / layer).rglob("*.py")
    if path.name not in STILL_SPELLED
)
SPELLED = re.compile(
    r"aten::|autograd::|c10d::|reducer::|torch[/\[\\]|torch_dynamo|_dynamo/|_inductor/|ProfilerStep#"
    r"|enumerate\\?\(DataLoader|DataLoaderIter|dataloader\\?\.py|Optimizer\\?\.(step|zero_grad)"
    r"|Checkpoint\w*Backward|AccumulateGrad|_foreach_|_fused_|Parallel\\?\.forward|\[pl\\?\]"
    r"|Torch-Compiled|\^whyidle|whyidle\\\.step"
)
"""what names in recordings of PyTorch hold, as text or in a pattern"""


def strings(tree: ast.AST) -> Iterator[ast.Constant]:
    """Every text in the code, docstrings left out."""
    bare = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in bare:
            yield node


def spelled(text: str) -> list[str]:
    return [
        f"line {node.lineno}: {node.value}"
        for node in strings(ast.parse(text))
        if SPELLED.search(str(node.value))
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_name_is_spelled_as_a_framework_does(path: Path):
    assert not spelled(path.read_text(encoding="utf-8"))


def test_such_a_name_would_be_found():
    assert spelled('rows = facts.named(r"^aten::mm$")')
    assert spelled('"""Text."""\nSTEP = "Optimizer.step#"')
    assert not spelled('"""Such as ``aten::mm``."""')


def test_most_rules_of_the_vocabulary_are_such_names():
    told = [rule.pattern for rule in RULES if SPELLED.search(rule.pattern)]
    assert len(told) > len(RULES) / 2
