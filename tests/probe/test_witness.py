"""The witness of a trial."""

import json
import time
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from whyidle.probe.frameworks.torch import accelerator, trial_hooks, trial_state  # noqa: E402
from whyidle.probe.trial import trial_recorder as trial  # noqa: E402
from whyidle.probe.trial.trial_recorder import FEW  # noqa: E402


class Stepper:
    """In the place of an optimizer: the witness asks only which one it is, and what it updates."""

    param_groups = ()


@pytest.fixture
def witness(tmp_path):
    return trial.TrialRecorder(str(tmp_path), {"steps": 5}, trial_state)


def document(folder):
    (path,) = folder.glob("*.trial.json")
    return json.loads(path.read_text())


def test_it_ends_the_job_after_the_asked_steps_as_ctrl_c_would(witness, tmp_path):
    optimizer = Stepper()
    for _ in range(4):
        witness.note_optimizer_step(optimizer)
    with pytest.raises(KeyboardInterrupt):
        witness.note_optimizer_step(optimizer)
    told = document(tmp_path)
    assert told["ended"] == "stopped"
    assert len(told["marks"]) == 5
    assert told["marks"] == sorted(told["marks"])


def test_it_goes_on_until_there_is_time_enough_as_well(tmp_path):
    witness = trial.TrialRecorder(str(tmp_path), {"steps": 2, "seconds": 0.05}, trial_state)
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        step_for(witness, 5.0)
    assert time.monotonic() - begun >= 0.05
    assert len(witness.marks) > 2


@pytest.mark.parametrize(("steps", "longer"), [(3, 1.0), (10**9, trial.LONGER)])
def test_it_goes_on_for_a_recording_that_is_awaited_but_not_for_ever(tmp_path, steps, longer):
    witness = trial.TrialRecorder(str(tmp_path), {"steps": 2, "seconds": 0.05}, trial_state)
    witness.waits = lambda: len(witness.marks) < steps
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        step_for(witness, 5.0)
    assert 0.05 * longer <= time.monotonic() - begun < 2.5
    assert len(witness.marks) >= min(steps, 3)


def test_long_steps_are_waited_for_the_longer_until_there_are_enough_of_them(tmp_path):
    witness = trial.TrialRecorder(str(tmp_path), {"steps": 2, "seconds": 0.05}, trial_state)
    witness.waits = lambda: True
    with pytest.raises(KeyboardInterrupt):
        step_for(witness, 5.0, pause=0.01)
    ran_s = (witness.marks[-1] - witness.marks[0]) / 1e9
    assert ran_s > trial.LONGER * 0.05
    assert len(witness.marks) >= trial.MORE_STEPS or ran_s >= trial.MUCH_LONGER * 0.05


def step_for(witness, seconds, pause=0.0):
    optimizer, begun = Stepper(), time.monotonic()
    while time.monotonic() - begun < seconds:
        time.sleep(pause)
        witness.note_optimizer_step(optimizer)


class Device:
    """Does each step in 20 ms, of a clock of its own, while its host launches one every
    millisecond; ``capturing``: what it is given is recorded as a graph."""

    def __init__(self, capturing):
        self.now = self.ready = 0
        self.capturing = capturing

    def launch(self):
        self.now += 1_000_000
        self.ready = max(self.ready, self.now) + 20_000_000

    def synchronize(self):
        assert not self.capturing
        self.now = max(self.now, self.ready)

    def is_current_stream_capturing(self):
        return self.capturing


@pytest.mark.parametrize("capturing", [False, True])
def test_a_device_is_waited_for_when_steps_are_steady_and_at_the_end(
    tmp_path, monkeypatch, capturing
):
    device = Device(capturing)
    monkeypatch.setattr(accelerator, "device_module", lambda *_: device)
    monkeypatch.setattr(trial, "clock", lambda: device.now)
    witness, optimizer = trial.TrialRecorder(str(tmp_path), {"steps": 30}, trial_state), Stepper()
    for _ in range(29):
        device.launch()
        witness.note_optimizer_step(optimizer)
    device.launch()
    with pytest.raises(KeyboardInterrupt):
        witness.note_optimizer_step(optimizer)
    drained = document(tmp_path)["drained"]
    if capturing:
        assert not drained
    else:
        (first, since), (last, until) = drained
        assert (first, last) == (4, 30)
        assert (until - since) / (last - first) == pytest.approx(20e6, rel=0.01)
    assert not list(tmp_path.glob("*.faults"))


def launch(witness, device, each, second):
    """Steps of so many ns of the host, the second one of others."""
    optimizer = Stepper()
    for step in range(10_000):
        device.now += second if step == 1 else each
        device.launch()
        witness.note_optimizer_step(optimizer)


def test_what_comes_before_the_steady_part_does_not_take_its_time(tmp_path, monkeypatch):
    """The second step is compiled for 40 s, and ten times as many follow as would be asked for."""
    device = Device(capturing=False)
    monkeypatch.setattr(trial, "clock", lambda: device.now)
    for place, module in (("host", None), ("device", device)):
        monkeypatch.setattr(accelerator, "device_module", lambda *_, found=module: found)
        (tmp_path / place).mkdir()
        witness = trial.TrialRecorder(
            str(tmp_path / place), {"steps": 12, "seconds": 1.0}, trial_state
        )
        with pytest.raises(KeyboardInterrupt):
            launch(witness, device, 9_000_000, 40_000_000_000)
        steady = witness.marks[-1] - witness.marks[trial.WARM_STEPS]
        assert 0.8e9 <= steady < 0.9e9, place
        if module:
            assert witness.marks[-1] - witness.done.drained[0][1] >= 0.8e9


def test_an_ordinary_run_is_no_longer_than_it_is_asked_to_be(tmp_path, monkeypatch):
    device = Device(capturing=False)
    monkeypatch.setattr(accelerator, "device_module", lambda *_: device)
    monkeypatch.setattr(trial, "clock", lambda: device.now)
    witness = trial.TrialRecorder(str(tmp_path), {"steps": 12, "seconds": 1.0}, trial_state)
    with pytest.raises(KeyboardInterrupt):
        launch(witness, device, 30_000_000, 30_000_000)
    assert 1.0e9 <= witness.marks[-1] - witness.marks[0] < 1.1e9


def test_a_job_that_ends_by_itself_is_not_waited_for(tmp_path, monkeypatch):
    """It has evaluated and saved since its last step, by then."""
    device = Device(capturing=False)
    monkeypatch.setattr(accelerator, "device_module", lambda *_: device)
    witness, optimizer = trial.TrialRecorder(str(tmp_path), {"steps": 100}, trial_state), Stepper()
    for _ in range(20):
        device.launch()
        witness.note_optimizer_step(optimizer)
    witness.write_report()
    ((steps, _),) = document(tmp_path)["drained"]
    assert steps == 4


class Timed(Device):
    """With events, as ``torch.cuda`` has them; it is asked of one device, the second."""

    def Event(self, enable_timing):  # noqa: N802, PyTorch's name
        assert enable_timing
        return Event(self)

    def synchronize(self, index):
        assert index == 1
        super().synchronize()

    def current_stream(self, index):
        assert index == 1
        return SimpleNamespace(stream_id=0)

    def current_device(self):
        return 0


class Event:
    def __init__(self, device):
        self.device = device

    def record(self, stream):
        self.at = max(self.device.ready, self.device.now)

    def query(self):
        return self.at <= self.device.now

    def elapsed_time(self, end):
        return (end.at - self.at) / 1e6


class OnSecond(Stepper):
    def __init__(self):
        there = SimpleNamespace(type="imagined", index=1)
        self.param_groups = [{"params": [SimpleNamespace(device=there)]}]


@pytest.mark.parametrize("ended", ["stopped", "finished"])
def test_events_tell_when_each_step_was_done(tmp_path, monkeypatch, ended):
    device = Timed(capturing=False)
    monkeypatch.setattr(accelerator, "device_module", lambda *_: device)
    monkeypatch.setattr(accelerator, "device_type", lambda *_: "imagined")
    for name in ("largest", "norm"):
        monkeypatch.setattr(trial_state, name, lambda optimizer: None)
    monkeypatch.setattr(trial, "clock", lambda: device.now)
    witness, optimizer = (
        trial.TrialRecorder(str(tmp_path), {"steps": 1000}, trial_state),
        OnSecond(),
    )
    for _ in range(30):
        device.launch()
        witness.note_optimizer_step(optimizer)
    device.now += 200_000_000  # the device comes to ten more meanwhile
    witness.write_report(ended)
    drained = document(tmp_path)["drained"]
    count = 30 if ended == "stopped" else 15
    assert [steps for steps, _ in drained] == list(range(4, count + 1))
    (_, since), (_, until) = drained[0], drained[-1]
    assert (until - since) / (count - 4) == pytest.approx(20e6, rel=0.05)
    assert not list(tmp_path.glob("*.faults"))


def test_the_device_that_is_asked_is_the_job_s(monkeypatch):
    """Asking another one would take half a gigabyte of it for a context."""
    asked = []
    state = torch.zeros(1, dtype=torch.uint8)
    cuda = SimpleNamespace(
        memory_allocated=lambda at: asked.append(at) or 7,
        max_memory_allocated=lambda at: asked.append(at) or 9,
        mem_get_info=lambda at: asked.append(at) or (8, 9),
        get_rng_state=lambda at: asked.append(at) or state,
    )
    monkeypatch.setattr(trial_state, "_cuda_module", lambda: cuda)
    assert (trial_state.device_bytes(1), trial_state.device_free(1)) == (7, 8)
    assert trial_state.device_peak(1) == 9
    assert trial_state.random_state(1) == b"\0"
    trial_state.random_state(None)
    assert asked == [1, 1, 1, 1, "cuda"]


def test_of_a_parameter_that_is_spread_over_ranks_this_one_s_part_is_kept():
    whole = torch.zeros(4)
    whole._local_tensor = torch.ones(2)
    optimizer = SimpleNamespace(param_groups=[{"params": [whole]}])
    before, now = trial_state.largest(optimizer)
    assert before.tolist() == trial_state.local(now).tolist() == [1.0, 1.0]


def test_of_several_optimizers_the_first_one_counts(witness):
    first, second = Stepper(), Stepper()
    for _ in range(3):
        witness.note_optimizer_step(first)
        witness.note_optimizer_step(second)
    assert len(witness.marks) == 3


def test_losses_are_kept_as_they_were(witness, tmp_path):
    loss = torch.tensor(1.5, requires_grad=True)
    witness.note_losses(loss)
    witness.note_losses((torch.tensor([2.5]), torch.tensor(1.0)))
    witness.note_losses(torch.ones(3))  # no scalar: its sum
    witness.note_losses(torch.tensor(float("nan")))
    with torch.no_grad():
        loss.fill_(9.0)
    witness.note_optimizer_step(Stepper())
    witness.write_report()
    told = document(tmp_path)
    assert [float.fromhex(loss) for loss in told["losses"][:3]] == [1.5, 3.5, 3.0]
    assert told["losses"][3] == "nan"
    assert told["ended"] == "finished"


def test_losses_of_the_cpu_hold_no_tensor(witness):
    """A kept tensor takes a kilobyte: memory that grows with every step looks like a leak."""
    witness.note_losses(torch.tensor(1.5, requires_grad=True))
    witness.note_losses(torch.ones(3, device="meta"))
    assert [type(loss) for loss in witness.losses] == [float, torch.Tensor]


def test_it_tells_how_far_parameters_go(tmp_path):
    witness = trial.TrialRecorder(str(tmp_path), {"steps": 100}, trial_state)
    parameter = torch.zeros(4, requires_grad=True)
    optimizer = torch.optim.SGD([parameter], lr=1.0)
    for _ in range(trial.WITNESSED + 1):
        witness.note_optimizer_step(optimizer)
        with torch.no_grad():
            parameter += 0.5
    witness.write_report()
    assert float.fromhex(document(tmp_path)["moved"]) == pytest.approx(trial.WITNESSED * 1.0)


def test_an_optimizer_that_steps_no_more_gives_way_to_the_next(witness):
    first, second = Stepper(), Stepper()
    witness.note_optimizer_step(first)
    for _ in range(trial.MOST_OTHERS + 3):
        witness.note_optimizer_step(second)
    assert len(witness.marks) == 2


def test_a_job_without_an_optimizer_of_pytorch_is_told_by_its_backward_passes(tmp_path):
    witness = trial.TrialRecorder(str(tmp_path), {"steps": 100}, trial_state)
    for _ in range(trial.BACKWARDS + 4):
        witness.note_losses(torch.tensor(1.0))
    assert len(witness.marks) == 4
    witness.note_optimizer_step(Stepper())  # it has one after all: from now on that counts
    witness.note_losses(torch.tensor(1.0))
    assert len(witness.marks) == 1


def test_a_job_that_shows_no_step_writes_nothing(witness, tmp_path):
    witness.write_report()
    assert not list(tmp_path.iterdir())


def test_other_seeds_are_other_numbers_and_the_same_again_the_same():
    before = torch.manual_seed, torch.random.get_rng_state()
    found = []
    try:
        for added in (0, 0, 1, 1):
            trial_hooks._seed_generators(added)
            torch.manual_seed(3)
            found.append(torch.rand(1).item())
            torch.manual_seed = before[0]
    finally:
        torch.manual_seed = before[0]
        torch.random.set_rng_state(before[1])
    assert found[0] == found[1]
    assert found[2] == found[3]
    assert found[0] != found[2]


def pausing(witness, device, pauses):
    """Steps of 10 ms, and before every tenth of them code is compiled for 40 s, so many times."""
    optimizer = Stepper()
    for step in range(10_000):
        if step % 10 == 5 and step < 10 * pauses:
            begin, device.now = device.now, device.now + 40_000_000_000
            witness.on_compilation(begin, device.now)
        device.launch()
        device.now += 9_000_000
        witness.note_optimizer_step(optimizer)


@pytest.mark.parametrize(("pauses", "seen"), [(1, 1), (FEW, FEW), (20, FEW + 1)])
def test_what_is_compiled_later_does_not_take_its_time_either(tmp_path, monkeypatch, pauses, seen):
    """Unless that goes on and on: then it is how the job runs, and it has run long enough."""
    device = Device(capturing=False)
    monkeypatch.setattr(trial, "clock", lambda: device.now)
    monkeypatch.setattr(accelerator, "device_module", lambda *_: None)
    witness = trial.TrialRecorder(str(tmp_path), {"steps": 12, "seconds": 1.0}, trial_state)
    with pytest.raises(KeyboardInterrupt):
        pausing(witness, device, pauses)
    told = document(tmp_path)
    assert len(told["compiled"]) == seen
    steady_s = (told["marks"][-1] - told["marks"][trial.WARM_STEPS]) / 1e9 - 40.0 * seen
    assert steady_s == pytest.approx(0.8, abs=0.02) or seen > FEW
