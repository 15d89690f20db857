"""Marks on an imagined device whose truth is known: what is recorded, asked, and concluded."""

import inspect
import os
import re
import threading
from types import SimpleNamespace

import numpy as np
import pytest
import standin
from device_stream import ImaginedStream

from whyidle.analysis.facts import Facts
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.model.device_timestamps import MARK
from whyidle.probe import wire
from whyidle.probe.core import device_timestamps
from whyidle.probe.frameworks.torch.device_clock import CudaClock
from whyidle.readers import probe
from whyidle.testing.builder import ms, us
from whyidle.testing.recorded_job import RecordedJob

LINE = "/job/train.py(30): train"
STEPS = 400
HOST = us(8)
"""what launching a kernel takes"""


class Job:
    """One process that trains on the imagined device, with the hooks called where they are."""

    def __init__(self, monkeypatch, **facts):
        self.guest = RecordedJob(device="cuda", **facts)
        self.stream = ImaginedStream(lambda: self.guest.now)
        monkeypatch.setattr(device_timestamps, "clock_ns", lambda: self.guest.now)
        self.loop = standin.Loop()
        self.marks = device_timestamps.DeviceMarks(self.loop, self.stream)
        self.loop.add_listener(self.marks)
        self.optimizer, self.bounds, self.batches = object(), [], []

    def wait(self, duration):
        self.guest.python(LINE, duration)

    def batch(self, duration):
        begin = self.guest.now
        self.loop.notify("on_batch_request")
        self.guest.batch(duration)
        self.batches.append((begin, self.guest.now))
        self.loop.notify("on_batch_ready", begin)

    def launch(self, count, kernel, host=HOST):
        for _ in range(count):
            self.stream.launch(kernel)
            self.guest.now += host

    def rest(self, count, kernel, host=HOST):
        """Forward, backward, and the optimizer's step."""
        self.launch(count, kernel, host)
        begin = self.guest.now
        self.loop.notify("on_backward_begin", ())
        self.launch(2 * count, kernel, host)
        self.loop.notify("on_backward_end", begin)
        self.launch(count, kernel, host)
        self.guest.step(LINE, us(20))
        self.loop.notify("on_step", self.optimizer)
        self.bounds.append(self.guest.now)
        self.guest.now = max(self.guest.now, self.stream.finish_time - ms(50))  # a queue has an end

    def timeline(self, tmp_path):
        self.guest.save(tmp_path)
        data = b"".join(wire.MARK.pack(*row) for _, row in self.loop.rows)
        (tmp_path / "1.device").write_bytes(data)
        assert not self.loop.faults
        return probe.load(tmp_path / "1.spans")

    def truth(self):
        """Share of the time in which the device ran, after the first steps."""
        first, last = self.bounds[20], self.bounds[-1]
        return self.stream.busy_in(first, last) / (last - first)

    def late(self):
        """Share of the time in which it did not run and a batch was awaited."""
        first, last = self.bounds[20], self.bounds[-1]
        waits = [(begin, end) for begin, end in self.batches if first <= begin <= last]
        edges = np.array(self.stream.busy)
        ran = np.concatenate([[0], np.cumsum(edges[:, 1] - edges[:, 0])])

        def until(time):
            row = np.searchsorted(edges[:, 0], time)
            return ran[row] - max(0, edges[row - 1, 1] - time)

        idle = sum(end - begin - (until(end) - until(begin)) for begin, end in waits)
        return idle / (last - first)


def starved(job, steps=STEPS, every=1):
    """Batches take 6 ms, kernels 2 ms (and with ``every``, only every so many-th batch is late)."""
    for i in range(steps):
        job.batch(ms(6) if i % every == 0 else us(50))
        job.rest(20, us(25))
    return job


def saturated(job, steps=STEPS):
    """Kernels take 8 ms, of which the host needs 1 ms to launch, and 2 ms for the batch."""
    for _ in range(steps):
        job.batch(ms(2))
        job.rest(20, us(100))
    return job


def host_bound(job, steps=STEPS):
    """Kernels take a fifth of the time that launching them takes."""
    for _ in range(steps):
        job.batch(us(50))
        job.rest(60, us(6), host=us(30))
    return job


@pytest.fixture
def job(monkeypatch):
    return Job(monkeypatch)


def test_a_starved_device(job, tmp_path):
    timeline = starved(job).timeline(tmp_path)
    facts = Facts(timeline)
    idle = job.late()
    assert idle > 0.5
    assert facts.host.progress.late_share == pytest.approx(idle, abs=0.01)
    assert facts.host.progress.fed_share <= job.truth() + 0.005
    diagnosis = diagnose_job([timeline])
    assert diagnosis.attribution.input == pytest.approx(idle, abs=0.03)
    assert diagnosis.attribution.compute == pytest.approx(facts.host.progress.fed_share, abs=0.03)
    assert diagnosis.verdict.state == "starved"
    first = diagnosis.findings[0]
    assert first.cause == "dataloader-no-workers"
    assert any(item.source == "events" for item in first.evidence)
    assert any(
        "events in" in note and "come from these" in note for note in diagnosis.coverage.notes
    )


@pytest.mark.parametrize("every", [2, 4, 8])
def test_batches_of_which_some_are_late_are_met_in_every_phase(job, every, tmp_path):
    facts = Facts(starved(job, 1600, every).timeline(tmp_path))
    assert facts.host.progress.late_share == pytest.approx(job.late(), abs=0.03)


def test_a_saturated_device(job, tmp_path):
    timeline = saturated(job).timeline(tmp_path)
    facts = Facts(timeline)
    assert job.truth() > 0.99
    assert facts.host.progress.late_share < 0.01
    assert facts.host.progress.fed_share > 0.95
    diagnosis = diagnose_job([timeline])
    assert diagnosis.attribution.compute > 0.9
    assert not [f for f in diagnosis.findings if f.severity != "info"]
    assert "had work queued" in diagnosis.verdict.headline


def test_a_full_queue_is_known_to_be_work(job, tmp_path):
    """Every launch waits for room in the queue, so that the host's times are the device's; that no
    mark was reached when the next was recorded tells that there was work all the time."""
    launch = job.launch

    def bounded(count, kernel, host=HOST):
        for _ in range(count):
            launch(1, kernel, host)
            job.guest.now = max(job.guest.now, job.stream.finish_time - ms(40))

    job.launch = bounded
    saturated(job)
    timeline = job.timeline(tmp_path)
    assert job.truth() > 0.99
    assert Facts(timeline).host.progress.fed_share > 0.95
    assert diagnose_job([timeline]).attribution.compute > 0.9


def test_a_device_that_follows_the_host(job, tmp_path):
    timeline = host_bound(job).timeline(tmp_path)
    facts = Facts(timeline)
    assert facts.host.progress.late_share < 0.02
    assert facts.host.progress.dry_share > 0.9
    assert facts.host.progress.fed_share < job.truth()  # gaps are never called work
    diagnosis = diagnose_job([timeline])
    assert diagnosis.attribution.unknown > 0.9
    assert diagnosis.verdict.state == "inconclusive"
    assert "queue was empty" in diagnosis.verdict.headline


def test_marks_are_no_kernels(job, tmp_path):
    timeline = host_bound(job, 400).timeline(tmp_path)
    signals = Facts(timeline).signals
    assert "device_marks" in signals
    assert not signals & {"device_events", "device_time", "launch_links"}
    missing = {a.cause: a.missing for a in diagnose_job([timeline]).abstentions}
    for cause in ("launch-bound-small-kernels", "no-mixed-precision", "per-step-host-sync"):
        assert "device_events" in missing[cause]


def test_too_few_windows_say_nothing(job, tmp_path):
    timeline = starved(job, 40).timeline(tmp_path)
    assert "device_marks" not in Facts(timeline).signals
    assert "no GPU activity" in diagnose_job([timeline]).verdict.headline


def test_a_look_at_a_hundred_steps_is_enough(monkeypatch, tmp_path):
    monkeypatch.setenv("WHYIDLE_PROFILE", "look")
    job = starved(Job(monkeypatch), 60)
    facts = Facts(job.timeline(tmp_path))
    assert facts.host.progress.is_sufficient
    assert facts.host.progress.late_share == pytest.approx(job.late(), abs=0.05)


def test_waiting_for_other_ranks_is_not_called_work(monkeypatch, tmp_path):
    job = Job(monkeypatch, rank="0", world_size="2")
    facts = Facts(saturated(job).timeline(tmp_path))
    assert facts.attribution["compute"] == 0.0


def test_times_keep_their_precision_for_hours(job, tmp_path):
    job.guest.now += 20 * 3600 * 10**9
    facts = Facts(starved(job).timeline(tmp_path))
    assert facts.host.progress.late_share == pytest.approx(job.late(), abs=0.01)


def test_nothing_is_asked_while_a_graph_is_captured(job):
    for i in range(400):
        job.stream.capture = i % 40 > 30
        if i % 3 == 0:
            job.batch(ms(1))
            job.stream.capture = not job.stream.capture  # in the middle of a step, too
        job.rest(10, us(20), host=us(200))
    assert not job.loop.faults
    assert job.marks in job.loop.listeners
    assert len(job.loop.rows) > 20


def test_another_stream_ends_the_window(job):
    starved(job, 100)
    before = job.marks.windows
    for _ in range(100):
        job.batch(us(50))
        job.stream.number += 1
        job.rest(10, us(20))
    assert job.marks.windows <= before + 1
    assert not job.loop.faults


def test_events_that_never_complete_end_the_measuring(job):
    job.stream.stuck = True
    starved(job, 4000)
    made = job.stream.calls.count("event")
    assert made <= device_timestamps.MOST_WAITING * device_timestamps.MOST_MARKS
    assert not job.loop.rows
    seen = len(job.stream.calls)
    starved(job, 1000)
    assert len(job.stream.calls) - seen <= 2 * 1000 * 16 / 81 + 2  # a look where a window would be
    job.stream.stuck = False
    starved(job, 200)
    assert job.loop.rows  # and they go on where the device does


def test_a_burst_holds_no_calls_of_ours(job):
    starved(job, 100)
    while not job.marks.open:
        starved(job, 1)
    job.loop.recording_operators = lambda: True
    seen = len(job.stream.calls)
    starved(job, 100)
    assert len(job.stream.calls) == seen
    job.loop.recording_operators = bool
    starved(job, 100)
    assert len(job.stream.calls) > seen


def test_events_are_used_again(job):
    starved(job, 2000)
    assert job.stream.calls.count("event") <= 3 * 6


@pytest.mark.parametrize("call", ["event", "record", "query", "elapsed_ms", "is_capturing"])
def test_a_fault_in_every_call_takes_the_hook_off(job, call):
    if call != "event":  # used ones would do
        starved(job, 30)

    def broken(*args):
        raise ValueError("a planted fault")

    setattr(job.stream, call, broken)
    starved(job, 200)
    assert [(where, str(error)) for where, error in job.loop.faults] == [
        ("device", "a planted fault")
    ]
    assert job.marks not in job.loop.listeners


def test_steps_that_are_not_measured_ask_nothing(job):
    """Of 5 ms steps, one in sixteen is measured."""
    calls = job.stream.calls
    quiet = 0
    for _ in range(820):
        before = len(calls)
        job.batch(ms(1))
        job.rest(20, us(48))
        quiet += len(calls) == before
    assert quiet >= 820 * (1 - 2 / 16.2) - 5
    per_step = {name: calls.count(name) / 820 for name in set(calls)}
    assert per_step["record"] <= 6 / 16.2 + 0.02
    assert per_step["query"] <= 7 / 16.2 + 0.02
    assert per_step["elapsed_ms"] <= 5 / 16.2 + 0.02


@pytest.mark.parametrize(("step", "most"), [(us(500), 25), (ms(20), 25), (ms(400), 1.5)])
def test_windows_a_second(job, step, most):
    begin = job.guest.now
    while job.guest.now - begin < 10**10:
        job.batch(step)
        job.rest(2, us(5))
    assert 0.6 < job.marks.windows / 10 <= most


def test_only_the_thread_that_trains_is_measured(job):
    starved(job, 30)
    seen = len(job.stream.calls)
    other = threading.Thread(target=starved, args=(job, 100))
    other.start()
    other.join()
    assert len(job.stream.calls) == seen


def test_a_forked_child_asks_nothing(job):
    starved(job, 30)
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            seen = len(job.stream.calls)
            measured = job.marks if job.marks in job.loop.listeners else None
            starved(job, 100)
            told = b"1" if measured is None and len(job.stream.calls) == seen else b"0"
            os.write(writing, told)
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(reading, 1) == b"1"


def test_several_optimizers_and_accumulation(job, tmp_path):
    other = object()
    for _ in range(400):
        for _ in range(2):
            job.batch(ms(2))
            job.launch(10, us(30))
        job.loop.notify("on_step", other)
        job.rest(10, us(30))
    facts = Facts(job.timeline(tmp_path))
    assert facts.host.progress.late_share == pytest.approx(job.late(), abs=0.02)


class Event:
    def __init__(self, enable_timing):
        assert enable_timing
        self.stream = None

    def record(self, stream):
        self.stream = stream

    def query(self):
        return True

    def elapsed_time(self, other):
        return 1.5


class Graph:
    def capture_begin(self, pool=None):
        if pool == "bad":
            raise RuntimeError("of the job")

    def capture_end(self):
        return 3


def torch_cuda():
    return SimpleNamespace(
        Event=Event,
        CUDAGraph=type("CUDAGraph", (Graph,), dict(vars(Graph))),
        current_stream=lambda index: SimpleNamespace(cuda_stream=40 + index),
        is_current_stream_capturing=lambda: False,
    )


def test_the_calls_that_pytorch_has():
    cuda = torch_cuda()
    stream = CudaClock(cuda, 2)
    first, last = stream.event(), stream.event()
    assert stream.record(first) == 42
    assert first.stream.cuda_stream == 42
    assert stream.query(first)
    assert stream.elapsed_ms(first, last) == 1.5
    assert not stream.is_capturing()


def test_captures_of_other_threads_are_heard_of():
    cuda, loop = torch_cuda(), standin.Loop()
    stream = CudaClock(cuda, 0)
    stream.watch_captures(loop)
    graph = cuda.CUDAGraph()
    graph.capture_begin()
    assert stream.is_capturing()
    assert graph.capture_end() == 3
    assert not stream.is_capturing()
    with pytest.raises(RuntimeError, match="of the job"):
        graph.capture_begin("bad")
    assert not stream.is_capturing()
    for undo in list(loop.undo.values()):
        undo()
    assert cuda.CUDAGraph.capture_begin is Graph.capture_begin


def test_nothing_that_waits_is_called():
    assert not re.search(r"\.synchronize|\.wait\(", inspect.getsource(device_timestamps))


def test_pytorch_has_what_is_asked_of_it():
    cuda = pytest.importorskip("torch", reason="PyTorch is not installed").cuda
    for name in ("Event", "current_stream", "is_current_stream_capturing", "is_initialized"):
        assert hasattr(cuda, name)
    for name in ("record", "query", "elapsed_time"):
        assert hasattr(cuda.Event, name)
    for name in ("capture_begin", "capture_end"):
        assert name in vars(cuda.CUDAGraph)


def test_rows_are_read_as_they_are_written():
    row = (1, 2, 3, 4, 5, 1, 0)
    (read,) = np.frombuffer(wire.MARK.pack(*row), MARK)
    assert tuple(read)[:6] == row[:6]
