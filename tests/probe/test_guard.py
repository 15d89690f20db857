import pytest

from whyidle.probe import guard

torch = pytest.importorskip("torch")


def test_an_old_pytorch_is_asked_in_its_own_way(monkeypatch):
    newest = getattr(torch.compiler, "is_compiling", torch._utils.is_compiling)
    assert guard.compiling() is newest
    monkeypatch.delattr(torch.compiler, "is_compiling", raising=False)
    assert guard.compiling() is torch._utils.is_compiling
