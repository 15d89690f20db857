"""The optimizer's switches."""

import pytest
import small_jobs as jobs
import torch


def step(kind, net, **named):
    optimizer = kind(net.parameters(), lr=0.1, **named)
    jobs.train(net, steps=1, optimizer=optimizer)
    return optimizer


@pytest.mark.parametrize("kind", [torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD])
@pytest.mark.parametrize("switch", ["fused", "foreach"])
def test_it_takes_hold(turn, kind, switch):
    plain = jobs.model()
    step(kind, plain)
    session = turn({f"optimizer.{switch}": True})
    net = jobs.model()
    optimizer = step(kind, net)
    assert optimizer.param_groups[0][switch] is True
    assert session.applied[f"optimizer.{switch}"] >= 1
    for one, other in zip(net.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(one, other)


def test_the_other_switch_gives_way(turn):
    turn({"optimizer.fused": True})
    group = step(torch.optim.Adam, jobs.model(), foreach=True).param_groups[0]
    assert (group["fused"], group["foreach"]) == (True, None)


@pytest.mark.parametrize(
    "made",
    [
        lambda given: given,
        lambda given: iter([{"params": iter(given)}]),
    ],
    ids=["list", "iterators"],
)
def test_parameters_that_cannot_be_fused_are_stepped_as_before(turn, made):
    session = turn({"optimizer.fused": True})
    given = [torch.zeros(3, dtype=torch.complex64, requires_grad=True) for _ in range(4)]
    optimizer = torch.optim.Adam(made(given), lr=0.1)
    assert len(optimizer.param_groups) == 1
    assert len(optimizer.param_groups[0]["params"]) == 4
    assert not optimizer.param_groups[0]["fused"]
    assert session.declined["optimizer.fused"].startswith("Adam refuses: ")
    assert not session.applied


def test_a_wish_that_excludes_it_is_kept(turn):
    session = turn({"optimizer.fused": True})
    optimizer = torch.optim.Adam(jobs.model().parameters(), differentiable=True)
    assert optimizer.param_groups[0]["differentiable"]
    assert "refuses" in session.declined["optimizer.fused"]


def test_the_scripts_own_mistake_is_told_as_ever(turn):
    with pytest.raises(ValueError, match="Invalid learning rate"):
        torch.optim.Adam(jobs.model().parameters(), lr=-1.0)
    turn({"optimizer.fused": True})
    with pytest.raises(ValueError, match="Invalid learning rate"):
        torch.optim.Adam(jobs.model().parameters(), lr=-1.0)


def test_sparse_gradients_are_stepped_as_before(turn):
    """No fused kernel takes them, and PyTorch says so where it is too late."""
    session = turn({"optimizer.fused": True})
    words = torch.nn.Embedding(8, 4, sparse=True)
    optimizer = torch.optim.SGD(words.parameters(), lr=0.1)
    before = words.weight.detach().clone()
    for _ in range(2):
        optimizer.zero_grad()
        words(torch.tensor([1])).sum().backward()
        optimizer.step()
    torch.testing.assert_close(words.weight[1], before[1] - 0.2)
    assert session.declined == {"optimizer.fused": "its gradients are sparse"}


@pytest.mark.parametrize("switch", ["fused", "foreach"])
def test_a_state_that_is_loaded_does_not_switch_it_off(turn, switch):
    saved = step(torch.optim.Adam, jobs.model()).state_dict()
    turn({f"optimizer.{switch}": True})
    net = jobs.model()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.1)
    optimizer.load_state_dict(saved)
    assert optimizer.param_groups[0][switch] is True
    assert optimizer.state[next(net.parameters())]["step"] == 1
    assert saved["param_groups"][0][switch] is None
    jobs.train(net, steps=1, optimizer=optimizer)


class Lion(torch.optim.Optimizer):
    """Not of PyTorch."""

    def __init__(self, params):
        super().__init__(params, {"lr": 0.1})

    def step(self, closure=None):
        """Nothing."""


def test_without_an_optimizer_that_has_the_switch_it_is_told(turn):
    session = turn({"optimizer.fused": True})
    net = jobs.model()
    jobs.train(net, optimizer=Lion(net.parameters()))
    assert "switch fused" in session.waiting["optimizer.fused"]()
    assert not session.applied


def test_a_subclass_takes_part(turn):
    class Mine(torch.optim.AdamW):
        def __init__(self, params):
            super().__init__(params, lr=0.1)

    turn({"optimizer.fused": True})
    assert Mine(jobs.model().parameters()).param_groups[0]["fused"] is True
