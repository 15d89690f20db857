import pytest

from whyidle.probe import guard

torch = pytest.importorskip("torch")


def test_an_old_pytorch_is_asked_in_its_own_way(monkeypatch):
    oldest = torch._utils.is_compiling
    known = [
        getattr(torch.compiler, name)
        for name in ("is_dynamo_compiling", "is_compiling")
        if hasattr(torch.compiler, name)
    ]
    for expected in (*known, oldest):
        asks = guard.compiling()
        assert asks is expected
        assert asks() is False
        monkeypatch.delattr(torch.compiler, expected.__name__, raising=False)
