"""Evaluation without a graph: seen to be one first, and never where something is learned."""

import sys
from pathlib import Path

import pytest
import small_jobs as jobs
import torch

from whyidle.engine import applied
from whyidle.probe.knobs.evaluation import LATE, NO_GRAPH

EDIT = {"evaluation.gradients": False}


def evaluated(net, grads):
    net.eval()
    for _ in range(2):
        out = net(torch.ones(2, 8))
        grads.append(out.requires_grad)
    net.train()
    return out.sum().item()


def job(net, epochs=4, evaluate=evaluated, inner=None):
    optimizer = torch.optim.SGD((inner or net).parameters(), lr=0.1)
    grads, numbers = [], []
    for _ in range(epochs):
        numbers += jobs.train(net, 2, optimizer)
        numbers.append(evaluate(net, grads))
    return numbers, grads


def test_it_takes_hold_once_an_evaluation_was_seen_to_learn_nothing(turn):
    plain, _ = job(jobs.model())
    hand = turn(EDIT)
    numbers, grads = job(jobs.model())
    assert numbers == plain
    assert grads == [True] * 2 + [False] * 6
    assert hand.applied == {"evaluation.gradients": 6}


def test_what_is_trained_in_evaluation_mode_is_left_alone(turn):
    hand = turn(EDIT)
    net = jobs.model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    jobs.train(net, 2, optimizer)
    for _ in range(3):
        net.eval()
        jobs.train(net, 2, optimizer)
        net.train()
        jobs.train(net, 1, optimizer)
    assert not hand.applied


def attacked(net, grads):
    net.eval()
    out = net(torch.ones(2, 8))
    grads.append(out.requires_grad)
    (wanted,) = torch.autograd.grad(out.sum(), [next(net.parameters())])
    net.train()
    return wanted.sum().item()


def test_gradients_asked_for_while_evaluating_are_there(turn):
    plain, _ = job(jobs.model(), evaluate=attacked)
    hand = turn(EDIT)
    assert job(jobs.model(), evaluate=attacked) == (plain, [True] * 4)
    assert not hand.applied


def late(net, grads):
    """Gradients with regard to the input, in the third evaluation only."""
    net.eval()
    data = torch.ones(2, 8, requires_grad=len(grads) == 2)
    out = net(data)
    grads.append(out.requires_grad)
    if data.requires_grad:
        out.sum().backward()
    net.train()
    return out.sum().item()


def test_an_input_that_needs_a_gradient_gets_one(turn):
    turn(EDIT)
    _, grads = job(jobs.model(), evaluate=late)
    assert grads == [True, False, True, True]  # and from then on it is let be


class Kept:
    """A result of the script's own kind."""

    def __init__(self, out):
        self.out = out


class Keeping(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = jobs.model()

    def forward(self, x):
        return Kept(self.body(x))


def consistent(net, take, every):
    """Each step learns from what the model gives in evaluation mode, too."""
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    losses, waiting = [], 0
    for step in range(8):
        net.eval()
        target = take(net(torch.ones(2, 8)))
        net.train()
        waiting = waiting + (take(net(torch.randn(2, 8))) - target).pow(2).mean()
        if step % every == every - 1:
            optimizer.zero_grad()
            waiting.backward()
            optimizer.step()
            losses.append(waiting.item())
            waiting = 0
    return losses


@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize(
    ("kind", "take"), [(jobs.model, lambda x: x), (Keeping, lambda x: x.out)], ids=["", "kept"]
)
def test_what_is_learned_from_later_keeps_its_graph(turn, kind, take, every):
    torch.manual_seed(0)
    plain = consistent(kind(), take, every)
    hand = turn(EDIT)
    torch.manual_seed(0)
    assert consistent(kind(), take, every) == plain
    assert not hand.applied
    assert "of what it gave" in hand.waiting["evaluation.gradients"]()


@pytest.mark.skipif(sys.version_info < (3, 11), reason="exceptions have no notes")
def test_gradients_that_are_first_asked_for_late(turn):
    """Too late for the job, but it is told why."""

    def evaluate(net, grads):
        net.eval()
        out = net(torch.ones(2, 8))
        grads.append(out.requires_grad)
        if len(grads) == 3:
            out.sum().backward()
        net.train()
        return out.sum().item()

    turn(EDIT)
    with pytest.raises(RuntimeError, match="does not require grad") as raised:
        job(jobs.model(), evaluate=evaluate)
    assert raised.value.__notes__ == [LATE]


class Whole(torch.nn.Module):
    """As a module of Lightning: it is put into evaluation mode, and what it wraps is called."""

    def __init__(self):
        super().__init__()
        self.net, self.loss = jobs.model(), torch.nn.MSELoss()


def test_the_model_may_be_what_is_only_wrapped(turn):
    hand = turn(EDIT)
    whole, grads = Whole(), []
    optimizer = torch.optim.SGD(whole.parameters(), lr=0.1)
    for _ in range(3):
        jobs.train(whole.net, 2, optimizer)
        whole.eval()
        grads.append(whole.net(torch.ones(2, 8)).requires_grad)
        whole.train()
    assert grads == [True, False, False]
    assert hand.applied == {"evaluation.gradients": 2}


class Frozen(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = jobs.model(), torch.nn.Linear(1, 1)

    def forward(self, x):
        return self.head(self.body(x))


def test_a_part_in_evaluation_mode_is_no_evaluation(turn):
    def run():
        torch.manual_seed(0)
        net = Frozen()
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        losses = []
        for _ in range(4):
            net.train()
            net.body.eval()
            losses += jobs.train(net, 2, optimizer)
        return losses

    plain = run()
    hand = turn(EDIT)
    assert run() == plain
    assert not hand.applied


class Wrapper(torch.nn.Module):
    """As DistributedDataParallel and torch.compile do."""

    def __init__(self, module):
        super().__init__()
        self.module = module

    def forward(self, *args):
        return self.module(*args)


def unwrapped(net, grads):
    net.eval()
    out = net.module(torch.ones(2, 8))
    grads.append(out.requires_grad)
    net.train()
    return out.sum().item()


@pytest.mark.parametrize("evaluate", [evaluated, unwrapped])
def test_wrapped_models_are_known_by_their_parameters(turn, evaluate):
    turn(EDIT)
    _, grads = job(Wrapper(jobs.model()), evaluate=evaluate)
    assert not grads[-1]


def test_a_compiled_model(turn):
    plain, _ = job(torch.compile(jobs.model(), backend="eager"))
    hand = turn(EDIT)
    numbers, grads = job(torch.compile(jobs.model(), backend="eager"))
    assert numbers == plain
    assert not grads[-1]
    assert hand.applied


def test_who_forgets_the_gradients_already_is_left_as_is(turn):
    @torch.no_grad()
    def evaluate(net, grads):
        return evaluated(net, grads)

    hand = turn(EDIT)
    job(jobs.model(), evaluate=evaluate)
    assert not hand.applied


def test_both_together(turn):
    hand = turn({"evaluation.inference_mode": True, "evaluation.batch_factor": 2})
    _, grads = job(jobs.model())
    assert not grads[-1]
    assert not hand.declined


BOTH = {"evaluation.inference_mode": True, "evaluation.batch_factor": 2}


def no_graph(net, grads):
    with torch.no_grad():
        return evaluated(net, grads)


def ended(net, grads):
    """It is over, and training has gone on, when the job ends."""
    loss = evaluated(net, grads)
    net(torch.ones(2, 8))
    return loss


def asking(net, grads):
    net.eval()
    out = net(torch.ones(2, 8, requires_grad=True))
    net.train()
    return out.sum().item()


@pytest.mark.parametrize(
    ("epochs", "evaluate", "whys"),
    [
        (0, None, [None, None]),
        (2, lambda net, grads: 0.0, ["was not put into evaluation mode"] * 2),
        (1, evaluated, ["too few evaluations ran"] * 2),
        (1, ended, ["too few evaluations ran"] * 2),
        (3, asking, ["asks for gradients itself", "asks no DataLoader"]),
        (2, attacked, ["gradients are asked for while it evaluates"] * 2),
        (3, no_graph, ["records no gradients as it is", "asks no DataLoader"]),
        (3, evaluated, [None, "asks no DataLoader"]),
    ],
)
def test_what_took_no_hold_says_what_it_waited_for(turn, epochs, evaluate, whys):
    hand = turn(BOTH)
    job(jobs.model(), epochs=epochs, evaluate=evaluate)
    hand.tell()
    told = applied.turned(Path(hand.folder)).declined
    assert set(told) == {knob for knob, why in zip(BOTH, whys, strict=True) if why}
    assert all(why in told[knob] for knob, why in zip(BOTH, whys, strict=True) if why)


def test_that_none_are_recorded_is_told_when_it_is_seen(turn):
    """A trial may be killed before its end."""
    hand = turn(EDIT)
    job(jobs.model(), epochs=2, evaluate=no_graph)
    assert NO_GRAPH in applied.turned(Path(hand.folder)).declined["evaluation.gradients"]


def test_it_is_told_when_an_evaluation_begins(turn):
    """A trial may be killed before its end."""
    hand = turn(EDIT)
    job(jobs.model(), epochs=1)
    assert "too few" in applied.turned(Path(hand.folder)).declined["evaluation.gradients"]
