"""Analysis, causes and fixes read roles: how a framework spells its names stays in frameworks/."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import whyidle
from whyidle.frameworks.torch.names import RULES

ROOT = Path(whyidle.__file__).parent
NEUTRAL = ("analysis", "causes", "fixes")
FILES = sorted(path for layer in NEUTRAL for path in (ROOT / layer).rglob("*.py"))
SPELLED = re.compile(
    r"aten::|autograd::|c10d::|reducer::|torch[/\[\\]|torch_dynamo|_dynamo/|_inductor/|ProfilerStep#"
    r"|enumerate\\?\(DataLoader|DataLoaderIter|dataloader\\?\.py|Optimizer\\?\.(step|zero_grad)"
    r"|Checkpoint\w*Backward|AccumulateGrad|_foreach_|_fused_|Parallel\\?\.forward|\[pl\\?\]"
    r"|Torch-Compiled|\^whyidle|whyidle\\\.step"
)
"""what names in recordings of PyTorch hold, as text or in a pattern"""
API = re.compile(
    r"\btorch\.\w|\bDataLoader\(|DistributedDataParallel|num_workers|prefetch_factor|pin_memory="
    r"|non_blocking=|no_sync\(|\.(to|detach|item|no_grad|register_comm_hook)\(|scaled_dot_product"
)
"""what users of PyTorch write; a fix leaves that to ``frameworks/torch/wording.py``"""
KNOB = re.compile(r"(torch|loader)\.\w+")


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


def spelled(text: str, pattern: re.Pattern[str] = SPELLED) -> list[str]:
    return [
        f"line {node.lineno}: {node.value}"
        for node in strings(ast.parse(text))
        if pattern.search(str(node.value)) and not KNOB.fullmatch(str(node.value))
    ]


def test_no_name_is_spelled_as_a_framework_does():
    for path in FILES:
        assert not spelled(path.read_text(encoding="utf-8")), path


def test_no_fix_words_the_api_of_a_framework():
    for path in sorted((ROOT / "fixes").rglob("*.py")):
        assert not spelled(path.read_text(encoding="utf-8"), API), path


def test_words_of_the_api_would_be_found():
    assert spelled('summary = "DataLoader(..., num_workers=2)"', API)
    assert not spelled('Edit(knob="torch.num_threads", value=1)', API)


def test_such_a_name_would_be_found():
    assert spelled('rows = facts.named(r"^aten::mm$")')
    assert spelled('"""Text."""\nSTEP = "Optimizer.step#"')
    assert not spelled('"""Such as ``aten::mm``."""')


def test_most_rules_of_the_vocabulary_are_such_names():
    told = [rule.pattern for rule in RULES if SPELLED.search(rule.pattern)]
    assert len(told) > len(RULES) / 2
