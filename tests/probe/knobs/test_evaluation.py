"""Evaluation without a graph: seen to be one first, and never where something is learned."""

import sys
from pathlib import Path

import pytest
import small_jobs as jobs
import torch

from whyidle.engine.recording import plan_channel
from whyidle.probe.knobs.evaluation import ASKED, LATE, LEARNED, NEVER, NO_GRAPH, ONE_ONLY

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
    session = turn(EDIT)
    numbers, grads = job(jobs.model())
    assert numbers == plain
    assert grads == [True] * 2 + [False] * 6
    assert session.applied == {"evaluation.gradients": 6}


def test_what_is_trained_in_evaluation_mode_is_left_alone(turn):
    session = turn(EDIT)
    net = jobs.model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    jobs.train(net, 2, optimizer)
    for _ in range(3):
        net.eval()
        jobs.train(net, 2, optimizer)
        net.train()
        jobs.train(net, 1, optimizer)
    assert not session.applied


def attacked(net, grads):
    net.eval()
    out = net(torch.ones(2, 8))
    grads.append(out.requires_grad)
    (wanted,) = torch.autograd.grad(out.sum(), [next(net.parameters())])
    net.train()
    return wanted.sum().item()


def test_gradients_asked_for_while_evaluating_are_there(turn):
    plain, _ = job(jobs.model(), evaluate=attacked)
    session = turn(EDIT)
    assert job(jobs.model(), evaluate=attacked) == (plain, [True] * 4)
    assert not session.applied


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
    assert grads == [True, False, True, False]


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
    session = turn(EDIT)
    torch.manual_seed(0)
    assert consistent(kind(), take, every) == plain
    assert not session.applied
    assert session.declined == {"evaluation.gradients": LEARNED}


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
    session = turn(EDIT)
    whole, grads = Whole(), []
    optimizer = torch.optim.SGD(whole.parameters(), lr=0.1)
    for _ in range(3):
        jobs.train(whole.net, 2, optimizer)
        whole.eval()
        grads.append(whole.net(torch.ones(2, 8)).requires_grad)
        whole.train()
    assert grads == [True, False, False]
    assert session.applied == {"evaluation.gradients": 2}


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
    session = turn(EDIT)
    assert run() == plain
    assert not session.applied


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


def test_a_model_that_is_called_in_two_ways_is_known_by_the_one_that_trains_it(turn):
    turn(EDIT)
    _, grads = job(Wrapper(jobs.model()))
    assert not grads[-1]
    _, grads = job(Wrapper(jobs.model()), evaluate=unwrapped)
    assert all(grads)


def test_a_compiled_model(turn):
    plain, _ = job(torch.compile(jobs.model(), backend="eager"))
    session = turn(EDIT)
    numbers, grads = job(torch.compile(jobs.model(), backend="eager"))
    assert numbers == plain
    assert not grads[-1]
    assert session.applied


def test_who_forgets_the_gradients_already_is_left_as_is(turn):
    @torch.no_grad()
    def evaluate(net, grads):
        return evaluated(net, grads)

    session = turn(EDIT)
    job(jobs.model(), evaluate=evaluate)
    assert not session.applied


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
    ("epochs", "evaluate", "why"),
    [
        (0, None, None),
        (2, lambda net, grads: 0.0, NEVER),
        (1, evaluated, ONE_ONLY),
        (1, ended, ONE_ONLY),
        (3, asking, ASKED),
        (2, attacked, LEARNED),
        (3, no_graph, NO_GRAPH),
        (3, evaluated, None),
    ],
)
def test_what_took_no_hold_says_what_it_waited_for(turn, epochs, evaluate, why):
    session = turn(EDIT)
    job(jobs.model(), epochs=epochs, evaluate=evaluate)
    session.write_state()
    told = plan_channel.read_applied_knobs(Path(session.folder)).declined
    assert set(told) == (set(EDIT) if why else set())
    assert why is None or why in told["evaluation.gradients"]


def test_larger_batches_are_left_to_the_script(turn):
    session = turn({**EDIT, "evaluation.batch_factor": 2})
    _, grads = job(jobs.model())
    assert not grads[-1]
    assert set(session.declined) == {"evaluation.batch_factor"}


class Attentive(torch.nn.Module):
    """PyTorch's attention goes a faster way without gradients, which rounds otherwise."""

    def __init__(self, frozen):
        super().__init__()
        self.first = torch.nn.Linear(8, 8)
        self.layer = torch.nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, dropout=0.0)
        self.layer.self_attn.requires_grad_(not frozen)

    def forward(self, x):
        return self.layer(self.first(x)[None]).mean(2)[0][:, None]


@pytest.mark.parametrize("frozen", [True, False])
def test_attention_gives_the_same_numbers(turn, frozen):
    torch.manual_seed(3)
    plain, _ = job(Attentive(frozen))
    session = turn(EDIT)
    torch.manual_seed(3)
    numbers, grads = job(Attentive(frozen))
    assert numbers == plain
    assert grads[-1] == frozen
    assert bool(session.applied) != frozen


def test_that_none_are_recorded_is_told_when_it_is_seen(turn):
    """A trial may be killed before its end."""
    session = turn(EDIT)
    job(jobs.model(), epochs=2, evaluate=no_graph)
    assert (
        NO_GRAPH
        in plan_channel.read_applied_knobs(Path(session.folder)).declined["evaluation.gradients"]
    )


def test_it_is_told_when_an_evaluation_begins(turn):
    """A trial may be killed before its end."""
    session = turn(EDIT)
    job(jobs.model(), epochs=1)
    assert (
        "too few"
        in plan_channel.read_applied_knobs(Path(session.folder)).declined["evaluation.gradients"]
    )
