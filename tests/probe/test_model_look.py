"""A look at the model: what it measures in a small job, and that it leaves no trace in it."""

import json

import pytest
import standin

from whyidle.probe.frameworks.torch.looks.model_look import ModelLook, find_swaps
from whyidle.readers.probe.process_facts import read_facts

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
nn = torch.nn


class Network(nn.Module):
    """Convolutions, a batch norm, and a cell in a loop."""

    def __init__(self):
        super().__init__()
        self.first = nn.Conv2d(3, 32, 3, padding=1)
        self.second = nn.Conv2d(32, 32, 3, padding=1)
        self.norm = nn.BatchNorm2d(32)
        self.cell = nn.LSTMCell(32, 8)
        self.last = nn.Linear(8, 5)

    def forward(self, x):
        x = nn.functional.dropout(self.norm(self.second(self.first(x))), 0.2)
        state = None
        for column in x.mean(2).permute(2, 0, 1):
            state = self.cell(column, state)
        return self.last(state[0])


def train(folder, *, look):
    """Train; return the losses, the network, the optimizer, and what the look found."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    net, losses = Network(), []
    optimizer = torch.optim.SGD(net.parameters(), 0.1, momentum=0.9)
    loop = standin.Loop(folder)
    loop.recorder.facts = {"rank": None}
    loop.lead = id(optimizer)
    listener = ModelLook(loop) if look else None
    if listener:
        loop.add_listener(listener)
    for _ in range(4):
        x, y = torch.randn(8, 3, 32, 8), torch.randint(0, 5, (8,))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(x), y)
        if listener:
            listener.on_backward_begin((loss,))
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        if listener:
            listener.on_step(optimizer)
    return losses, net, optimizer, listener and listener.found


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("looks")
    return train(folder, look=False), train(folder, look=True)


def test_a_look_leaves_no_trace(runs):
    (losses, net, optimizer, _), (seen, looked, other, found) = runs
    assert found["state"] == "measured"
    assert seen == losses
    for name, value in net.state_dict().items():
        assert torch.equal(value, looked.state_dict()[name]), name
    kept = [state["momentum_buffer"] for state in optimizer.state.values()]
    again = [state["momentum_buffer"] for state in other.state.values()]
    assert all(torch.equal(a, b) for a, b in zip(kept, again, strict=True))
    assert all(p.is_contiguous() for p in looked.parameters())
    assert [type(m) for m in looked.modules()] == [type(m) for m in net.modules()]


def test_layers_are_counted_and_timed(runs):
    found = runs[1][3]
    rows = {found["modules"][row[0]][0]: row for row in found["calls"]}
    assert rows["cell"][1] == 8
    assert rows["second"][4] == 2 * 8 * 32 * 32 * 9 * 256  # two each multiply-add
    assert all(row[2] > 0 for row in rows.values())
    assert rows["second"][3] > 0
    assert found["peak_flops"] > 1e8
    assert found["peak_bytes"] > 1e8


def test_passes_of_larger_batches_are_timed(runs):
    """They do more work; of a batch 16 times as large at most about 16 times as much."""
    (small, first), (large, second) = runs[1][3]["batches"]
    assert (small, large) == (4, 16)
    assert 1.0 < first < second < 2 * large


def test_swaps_are_timed_in_pairs(runs):
    found = runs[1][3]
    kinds = {swap["kind"]: swap for swap in found["swaps"]}
    assert {"channels_last", "bfloat16"} <= set(kinds)
    assert all(len(swap["pairs"]) >= 4 for swap in kinds.values() if "failed" not in swap)


def test_what_is_found_is_read_back(runs):
    found = runs[1][3]
    facts = read_facts({"model_look": json.loads(json.dumps(found))})
    assert facts.model_look.swaps[0].pairs
    assert facts.model_look.calls


def test_a_swap_is_undone_even_where_it_fails():
    net = Network()
    modules = list(net.modules())
    before = [(p, p.data_ptr(), p.stride()) for p in net.parameters()]
    for swap in find_swaps(torch, modules, torch.device("cpu")):
        with pytest.raises(ZeroDivisionError), swap.apply():
            1 / 0  # noqa: B018
    assert [(p, p.data_ptr(), p.stride()) for p in net.parameters()] == before
