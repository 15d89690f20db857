"""A look at memory: what it finds in a small job, and that it leaves no trace in it."""

import gc
from itertools import pairwise
from types import SimpleNamespace

import pytest
import standin

from whyidle.analysis.memory.memory_plan import MemoryPlan
from whyidle.model.memory_look import MemoryLook as Look
from whyidle.probe.frameworks.torch.activation_owners import ModuleWatch
from whyidle.probe.frameworks.torch.batch_size import find_batch_size
from whyidle.probe.frameworks.torch.looks.batch_growth import BatchGrowth
from whyidle.probe.frameworks.torch.looks.memory_look import MemoryLook
from whyidle.probe.frameworks.torch.looks.model_look import ModelLook
from whyidle.probe.frameworks.torch.looks.repeated_pass import check_modules, restore_job
from whyidle.probe.frameworks.torch.looks.step_tape import NotReplayableError, StepTape
from whyidle.readers.probe.process_facts import read_document

torch = pytest.importorskip("torch", reason="PyTorch is not installed")
nn = torch.nn


class Counting(nn.Module):
    """Counts its calls, and draws random numbers."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return nn.functional.dropout(x, 0.5)


def network():
    torch.set_num_threads(1)  # as the tests have it, for the fixture of the module too
    torch.manual_seed(0)
    first = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
    last = nn.Sequential(nn.Flatten(), nn.Linear(8 * 8 * 8, 5))
    return nn.Sequential(first, Counting(), last)


class Job:
    """Trains, with a look or without; ``found`` is what the look says."""

    def __init__(
        self, folder, *, look, steps=5, loss=nn.functional.cross_entropy, batch=8, other=None
    ):
        gc.collect()  # what other tests left is not freed in the step that is recorded
        self.net, self.losses = network(), []
        optimizer = torch.optim.Adam(self.net.parameters(), 1e-2)
        loop = standin.Loop(folder)
        loop.recorder.facts = {"rank": None}
        loop.lead = id(optimizer)
        listener = MemoryLook(loop) if look else None
        if listener:
            loop.add_listener(listener)
        second = other and other(loop)
        if second:
            loop.add_listener(second)
        generator = torch.Generator().manual_seed(1)
        for _ in range(steps):
            x = torch.randn(batch, 3, 8, 8, generator=generator)
            y = torch.randint(0, 5, (batch,), generator=generator)
            optimizer.zero_grad()
            value = loss(self.net(x), y)
            value.backward()
            optimizer.step()
            self.losses.append(value.item())
            if look:
                loop.notify("on_step", optimizer)
        if listener:
            listener.stop_listening()
        self.faults, self.found = loop.faults, listener and listener.found
        self.all_found = [one.found for one in (listener, second) if one]
        self.state = self.net.state_dict()


@pytest.fixture(scope="module")
def looked(tmp_path_factory):
    return Job(tmp_path_factory.mktemp("looked"), look=True)


def test_the_job_computes_the_same_bits_as_without_a_look(looked, tmp_path):
    plain = Job(tmp_path, look=False)
    assert looked.losses == plain.losses
    assert all(torch.equal(a, plain.state[name]) for name, a in looked.state.items())
    assert looked.net[1].calls == plain.net[1].calls
    assert looked.faults == []


def test_persistent_owners_are_counted_to_the_byte(looked):
    numbers = sum(p.numel() for p in looked.net.parameters())
    found = looked.found
    assert found["state"] == "measured"
    assert found["batch"] == 8
    assert found["parameters"] == found["gradients"] == 4 * numbers
    assert found["optimizer"] == 8 * numbers + 4 * len(list(looked.net.parameters()))
    assert found["batch_bytes"] == 8 * 3 * 8 * 8 * 4


def test_activations_belong_to_the_modules_that_keep_them(looked):
    look = read_document(Look, looked.found)
    own = MemoryPlan(look).job_order
    kept = {look.modules[n][0]: size for n, size in own.activation_bytes().items() if n >= 0}
    image = 8 * 8 * 8 * 8 * 4
    assert kept["0.0"] == 8 * 3 * 8 * 8 * 4  # its input
    assert kept["0.1"] == image + 2 * 8 * 4  # its input and the statistics of the batch
    assert kept["0.2"] == image  # its result
    assert kept["2.1"] == image  # the result of dropout


@pytest.mark.parametrize(
    ("length", "found"), [(12, (1, True)), (8, (2, False))], ids=["longer inputs", "the same"]
)
def test_inputs_of_other_lengths_are_no_other_batch(tmp_path, length, found):
    batches = iter([torch.randn(6, 3, 8)] * 3 + [torch.randn(4, 3, length)])
    look = record_step(tmp_path, nn.Conv1d(3, 5, 3), lambda: next(batches), lambda out: out.mean())
    assert (len(look.replays), look.uneven) == found


@pytest.mark.real_processes("libraries that other tests loaded change what this process allocates")
def test_the_peak_at_twice_the_batch_is_what_a_job_of_that_batch_allocates(tmp_path):
    look = read_document(Look, Job(tmp_path, look=True).found)
    twice = read_document(Look, Job(tmp_path, look=True, batch=16).found)
    # other tensors of this process differ from test to test
    predicted = MemoryPlan(look).peak_at(16) - look.others
    assert predicted == pytest.approx(MemoryPlan(twice).peak_at(16) - twice.others, rel=0.02)


def test_looks_take_turns(tmp_path):
    job = Job(tmp_path, look=True, steps=7, other=ModelLook)
    assert [found["state"] for found in job.all_found] == ["measured", "measured"]
    assert job.losses == Job(tmp_path, look=False, steps=7).losses


def test_inputs_that_disagree_are_declined_and_the_peak_is_told(tmp_path):
    size, why = find_batch_size((torch.zeros(40, 3), torch.zeros(2, 90)), None)
    assert size is None
    assert "2 and 40 rows" in why
    assert find_batch_size((torch.zeros(120, 8, 4),), 8) == (8, "")  # time comes first
    assert find_batch_size(([torch.zeros(3, 8, 9)] * 5, [{}] * 5), 5) == (5, "")
    assert find_batch_size((object(),), 4)[0] is None


def test_what_a_sample_is_is_not_taken_from_a_state_or_from_time(monkeypatch):
    monkeypatch.setattr("sys.argv", ["train.py", "--test-batch-size", "5", "--batch_size", "20"])
    tokens, state = torch.zeros(35, 20), (torch.zeros(2, 20, 8), torch.zeros(2, 20, 8))
    assert find_batch_size((tokens, state), None) == (20, "")
    monkeypatch.setattr("sys.argv", ["train.py"])
    assert find_batch_size((tokens,), None) == (35, "")
    size, why = find_batch_size((tokens,), None, time_first=True)
    assert size is None
    assert "time" in why


class Named(nn.Module):
    """Is called by keywords, after a transform without parameters."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(6, 2)

    def forward(self, *, x):
        return self.layer(x)


def test_a_closure_keywords_and_transforms_are_seen_through(tmp_path):
    net, flip = Named(), nn.Identity()
    optimizer = torch.optim.Adam(net.parameters())
    loop = standin.Loop(tmp_path)
    loop.recorder.facts, loop.lead = {"rank": None}, id(optimizer)
    listener = MemoryLook(loop)

    def closure():
        optimizer.zero_grad()
        loss = net(x=torch.stack([flip(torch.ones(1, 6))[0] for _ in range(8)])).mean()
        loss.backward()
        return loss

    for _ in range(4):
        assert optimizer.step(closure) is not None
        listener.on_step(optimizer)
    listener.stop_listening()
    assert loop.faults == []
    assert listener.found["state"] == "measured"
    assert listener.found["batch"] == 8


@pytest.mark.parametrize("by_name", [False, True])
def test_what_else_a_step_is_given_reaches_the_optimizer(tmp_path, by_name):
    given = []

    class Sam(torch.optim.SGD):
        def step(self, closure=None, rho=0.0, scale=None):
            given.append((rho, scale))
            return super().step(closure)

    net = nn.Linear(6, 2)
    optimizer = Sam(net.parameters(), lr=0.1)
    loop = standin.Loop(tmp_path)
    loop.recorder.facts, loop.lead = {"rank": None}, id(optimizer)
    listener = MemoryLook(loop)

    def closure():
        optimizer.zero_grad()
        loss = net(torch.ones(8, 6)).mean()
        loss.backward()
        return loss

    for _ in range(4):
        if by_name:
            optimizer.step(closure=closure, rho=0.5, scale=max)
        else:
            optimizer.step(closure, 0.5, max)
        listener.on_step(optimizer)
    listener.stop_listening()
    assert given == [(0.5, max)] * 4
    assert loop.faults == []
    assert listener.found["batch"] == 8


def test_functions_of_torch_func_end_the_look_and_not_the_job(tmp_path):
    def loss(out, y):
        torch.func.grad(lambda x: x.square().sum())(torch.ones(3))
        return nn.functional.cross_entropy(out, y)

    job = Job(tmp_path, look=True, loss=loss)
    assert "torch.func" in job.found["state"]
    assert job.faults == []
    assert len(job.losses) == 5


def test_a_job_of_two_steps_says_that_it_ended(tmp_path):
    assert "before its third step" in Job(tmp_path, look=True, steps=2).found["state"]


@pytest.mark.parametrize(
    ("module", "why"), [(nn.SyncBatchNorm(3), "other ranks"), (nn.Linear(2, 2), None)]
)
def test_modules_that_exchange_are_not_repeated(module, why):
    if why is None:
        check_modules([module])
        return
    with pytest.raises(NotReplayableError, match=why):
        check_modules([module])


def test_what_a_pass_changes_is_put_back():
    net = network()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    marker = net[0][0].weight.grad = torch.ones_like(net[0][0].weight)
    state = torch.get_rng_state()
    with restore_job(torch, list(net.modules())):
        net(torch.randn(4, 3, 8, 8)).sum().backward()
        net[1].extra = 1
    assert net[0][0].weight.grad is marker
    assert net[1].calls == 0
    assert not hasattr(net[1], "extra")
    assert torch.equal(torch.get_rng_state(), state)
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_the_tape_computes_in_the_precision_of_the_job():
    net, tape = nn.Linear(4, 2), StepTape(torch)
    tape.start()
    with torch.autocast("cpu", torch.bfloat16):
        out = net(torch.randn(3, 4))
        loss = out.square().mean()
    loss.backward()
    tape.stop()
    tape.keep_needed()
    assert tape.autocast is torch.bfloat16
    assert torch.equal(tape.compute(tape.leaves)[tape.loss], loss)


def test_the_tape_keeps_what_the_loss_needs_and_computes_it_again():
    net, tape = nn.Linear(4, 2), StepTape(torch)
    x = torch.randn(3, 4)
    tape.start()
    out = {"logits": net(x)}
    out["logits"].argmax(1)  # nothing that the loss needs
    loss = (out["logits"] * 2).square().mean()
    loss.backward()
    tape.stop()
    tape.keep_needed()
    assert len(tape.calls) == 4
    values = tape.compute(tape.leaves)
    assert torch.equal(values[tape.loss], loss)


def test_a_model_that_computes_its_samples_one_by_one_is_declined(tmp_path):
    class Each(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Conv2d(3, 8, 3)

        def forward(self, images):
            return sum(self.first(image[None]).square().mean() for image in images)

    found = record_step(
        tmp_path, Each(), lambda: [torch.randn(3, 8, 8) for _ in range(4)], lambda loss: loss
    )
    assert (found.state, found.batch) == ("measured", None)
    assert found.why_no_batch == "the model computes the samples of a list one by one"


def record_step(folder, net, batch, loss):
    """What a look finds in a job of SGD without dropout."""
    loop = standin.Loop(folder)
    optimizer = torch.optim.SGD(net.parameters(), 1e-2)
    loop.recorder.facts, loop.lead = {"rank": None}, id(optimizer)
    listener = MemoryLook(loop)
    loop.add_listener(listener)
    for _ in range(4):
        optimizer.zero_grad()
        loss(net(batch())).backward()
        optimizer.step()
        loop.notify("on_step", optimizer)
    listener.stop_listening()
    assert loop.faults == []
    return read_document(Look, listener.found)


def test_bytes_that_a_recurrent_layer_keeps_grow_with_the_batch(tmp_path, monkeypatch):
    monkeypatch.setenv("WHYIDLE_MEMORY_FOR", "1000000000")  # tensors, not this process
    net = nn.LSTM(40, 40, 6, batch_first=True)

    def look_at(batch):
        return record_step(
            tmp_path, net, lambda: torch.randn(batch, 90, 40), lambda out: out[0].mean()
        )

    kept = [size for _, size, _ in look_at(6).replays[0].saved]
    if not any(size % 6 for size in kept):
        pytest.skip("this PyTorch keeps no buffer of bytes for a recurrent layer on a CPU")
    seen, twice = look_at(6), look_at(12)
    predicted = MemoryPlan(seen).peak_at(12) - seen.others
    assert predicted == pytest.approx(MemoryPlan(twice).peak_at(12) - twice.others, rel=0.05)


def test_activations_of_a_parameters_shape_are_not_taken_for_copies_of_it(tmp_path):
    net = nn.Sequential(*(nn.Sequential(nn.Linear(64, 64), nn.Sigmoid()) for _ in range(4)))
    look = record_step(tmp_path, net, lambda: torch.randn(64, 64), lambda out: out.mean())
    assert look.batch == 64
    assert MemoryPlan(look).peak_at(64)
    assert MemoryPlan(look).peak_at(128) is None
    assert "MB of the peak may grow with the batch or not" in look.why_no_batch


def open_job(folder, steps, samples, world=None):
    """A job whose growth is open after its look, at a batch of 32 of so many samples; what it says,
    and whether it wants to go on."""
    widths = (64, 32, 64, 32, 64)
    layers = [nn.Sequential(nn.Linear(a, b), nn.Sigmoid()) for a, b in pairwise(widths)]
    net = nn.Sequential(*layers)
    loop, optimizer = standin.Loop(folder), torch.optim.SGD(net.parameters(), 1e-3)
    loop.recorder.facts, loop.lead = {"rank": None, "world_size": world}, id(optimizer)
    look = MemoryLook(loop)
    loop.add_listener(look)
    rows = iter(torch.utils.data.DataLoader(torch.randn(samples, 64), 32))
    for _, x in zip(range(steps), rows, strict=False):
        loop.notify("on_iterator", rows)
        optimizer.zero_grad()
        net(x).mean().backward()
        optimizer.step()
        loop.notify("on_step", optimizer)
    look.stop_listening()
    return read_document(Look, look.found), look.wants_longer


@pytest.mark.parametrize(
    ("samples", "world", "goes_on"),
    [(5 * 32 + 16, None, True), (5 * 32, None, False), (5 * 32 + 31, None, False),
     (5 * 32 + 16, "2", False)],
    ids=["smaller", "none is smaller", "of about the same size", "other ranks do not wait"],
)  # fmt: skip
def test_a_job_goes_on_for_a_last_batch_that_tells_what_grows(tmp_path, samples, world, goes_on):
    assert open_job(tmp_path, 4, samples, world)[1] is goes_on


def test_the_last_batch_tells_what_grows(tmp_path):
    look, goes_on = open_job(tmp_path, 6, 5 * 32 + 16)
    assert not goes_on
    assert MemoryPlan(look).peak_at(64)


def test_a_workspace_without_samples_is_not_known_to_grow():
    """Even if it divides among them, as any power of two does; a mask of activations does grow."""
    kept = {((16, 100), torch.float32): 6400, ((100, 100), torch.float32): 40_000}
    watch = ModuleWatch(torch, [])
    watch._shapes = kept
    parameter = torch.zeros(100, 100)
    step = SimpleNamespace(size=16, device=parameter.device, groups=[parameter], watch=watch)
    grows = BatchGrowth(step, [])
    assert [grows.is_unsure(n) for n in (6400, 1600, 40_000, 32_768)] == [False, False, False, True]
    assert [grows(n) for n in (6400, 1600, 40_000, 32_768, 12_345)] == [True] * 2 + [
        False,
        True,
        False,
    ]
