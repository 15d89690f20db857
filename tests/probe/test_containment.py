import pytest

from whyidle.probe.core import containment

torch = pytest.importorskip("torch")


def test_an_old_pytorch_is_asked_in_its_own_way(monkeypatch):
    oldest = torch._utils.is_compiling
    known = [
        getattr(torch.compiler, name)
        for name in ("is_dynamo_compiling", "is_compiling")
        if hasattr(torch.compiler, name)
    ]
    assert containment.compiling()() is False
    for expected in (*known, oldest):
        assert containment.compiling() is expected
        monkeypatch.delattr(torch.compiler, expected.__name__, raising=False)
