"""Modules that are computed again: the same numbers in every bit, copies included."""

import copy
import pickle

import torch

KNOB = "model.recompute"


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear, self.norm = torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8)
        self.drop = torch.nn.Dropout(0.2)

    def forward(self, x):
        return x + self.drop(torch.relu(self.norm(self.linear(x))))


class Counter(Block):
    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return super().forward(x)


def train(kind=Block, steps=4):
    torch.manual_seed(0)
    net = torch.nn.Sequential(kind(), kind(), torch.nn.Linear(8, 1))
    optimizer = torch.optim.Adam(net.parameters(), 1e-2)
    average, losses = copy.deepcopy(net), []
    for _ in range(steps):
        loss = net(torch.randn(6, 8)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        with torch.no_grad():
            for mean, now in zip(average.parameters(), net.parameters(), strict=True):
                mean.lerp_(now, 0.5)
    held = net.state_dict() | {f"average.{k}": v for k, v in average.state_dict().items()}
    answer = copy.deepcopy(average).eval()(torch.ones(2, 8)).tolist()
    return losses, {name: value.tolist() for name, value in held.items()}, answer, net


def test_losses_weights_statistics_and_copies_are_the_same_bits(turn):
    plain = train()
    session = turn({KNOB: "0,1"})
    recomputed = train()
    assert recomputed[:3] == plain[:3]
    assert session.applied == {KNOB: 1}
    assert not session.declined


def test_activations_are_given_back(turn):
    def kept(net):
        sizes = []
        x = torch.ones(4, 8, requires_grad=True)
        with torch.autograd.graph.saved_tensors_hooks(
            lambda t: sizes.append(t.untyped_storage().data_ptr()) or t, lambda t: t
        ):
            net(x).sum().backward()
        return len(sizes)

    net = train()[3]
    before = kept(net)
    turn({KNOB: "0,1"})
    net = train()[3]
    assert kept(net) < before / 2


def test_the_model_can_be_pickled_and_evaluated(turn):
    turn({KNOB: "0"})
    net = train()[3]
    twin = pickle.loads(pickle.dumps(net))
    x = torch.ones(2, 8)
    assert torch.equal(twin.eval()(x), net.eval()(x))


def test_what_keeps_a_count_is_left_alone(turn):
    plain = train(Counter)
    session = turn({KNOB: "0"})
    changed = train(Counter)
    assert changed[:3] == plain[:3]
    assert [block.calls for block in changed[3][:2]] == [block.calls for block in plain[3][:2]]
    assert "changes its attribute 'calls'" in session.declined[KNOB]


def test_a_name_that_the_model_lacks_is_told(turn):
    session = turn({KNOB: "no.such"})
    train(steps=1)
    assert "no module 'no.such'" in session.declined[KNOB]
    assert not session.applied


class Drifting(Block):
    """Its result depends on a buffer that moves."""

    def __init__(self):
        super().__init__()
        self.register_buffer("scale", torch.ones(1))

    def forward(self, x):
        self.scale = self.scale * 1.5
        return super().forward(x) * self.scale


def test_a_buffer_that_moves_is_seen_in_the_first_call_and_changes_no_number(turn):
    plain = train(Drifting)
    session = turn({KNOB: "0,1"})
    assert train(Drifting)[:3] == plain[:3]
    assert "changes its attribute" in session.declined[KNOB] or "buffer" in session.declined[KNOB]


def test_the_first_step_recomputes_already(turn):
    turn({KNOB: "0"})
    torch.manual_seed(0)
    net, calls = torch.nn.Sequential(Block(), torch.nn.Linear(8, 1)), []
    forward = torch.nn.Linear.forward
    torch.nn.Linear.forward = lambda self, x: calls.append(1) or forward(self, x)
    try:
        net(torch.randn(4, 8)).sum().backward()
    finally:
        torch.nn.Linear.forward = forward
    assert len(calls) == 3


def test_hooks_inside_are_not_called_twice(turn):
    session = turn({KNOB: "0"})
    net = torch.nn.Sequential(Block(), torch.nn.Linear(8, 1))
    net[0].linear.register_forward_hook(lambda *_: None)
    net(torch.ones(2, 8)).sum().backward()
    assert "called twice" in session.declined[KNOB]


def test_it_is_undone(turn):
    forward = Block.forward
    session = turn({KNOB: "0"})
    train()
    assert Block.forward is not forward
    session.undo_changes()
    assert Block.forward is forward
