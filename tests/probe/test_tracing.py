import pytest

from whyidle.probe.frameworks.torch import tracing

torch = pytest.importorskip("torch")


def test_an_old_pytorch_is_asked_in_its_own_way(monkeypatch):
    oldest = torch._utils.is_compiling
    known = [
        getattr(torch.compiler, name)
        for name in ("is_dynamo_compiling", "is_compiling")
        if hasattr(torch.compiler, name)
    ]
    assert tracing.tracing_query()() is False
    for expected in (*known, oldest):
        assert tracing.tracing_query() is expected
        monkeypatch.delattr(torch.compiler, expected.__name__, raising=False)
