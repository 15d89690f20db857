"""What stack samples of a watched process stand for once they are read."""

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest

from whyidle.analysis.facts import Facts
from whyidle.diagnosis.process_reading import read_process
from whyidle.model.timeline import HostKind
from whyidle.probe.core.recorder import ANNOTATION, OP, SAMPLE, Recorder
from whyidle.probe.frameworks.torch.gradient_exchange import CLOCK
from whyidle.readers import probe
from whyidle.readers.probe import samples as _samples
from whyidle.testing.builder import ms
from whyidle.testing.recorded_job import RecordedJob

LINE = ";/job/train.py(9): prepare;/job/train.py(20): <module>"


def train(leaf, look, memory=None, source=""):
    job = RecordedJob(**({"memory": memory} if memory else {}))
    for _ in range(12):
        getattr(job, look)(leaf + LINE, ms(60))
        job.backward("/job/train.py(21): <module>", ms(30))
        job.step("/job/train.py(22): <module>", ms(10))
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "sources.json").write_text(json.dumps({"/job/a.py": source}))
        return read_process(job.save(Path(folder)))


TORCH = "/lib/python3.11/site-packages/torch/nn/modules/linear.py(5): forward"


@pytest.mark.parametrize(
    ("leaf", "look", "compute"),
    [
        (TORCH, "work", 1.0),
        (TORCH, "python", 0.4),
        ("/lib/python3.11/site-packages/numpy/lib/f.py(5): pad", "work", 0.4),
        ("/lib/python3.11/site-packages/PIL/Image.py(5): resize", "work", 0.4),
        ("/lib/python3.11/json/decoder.py(5): decode", "work", 0.4),
    ],
)
def test_native_code_of_others_is_no_operator(leaf, look, compute):
    """It leaves the interpreter's lock free as operators do; theirs is the job's own work."""
    assert Facts(train(leaf, look)).attribution["compute"] == pytest.approx(compute, abs=0.1)


def kept(memory):
    """Lines that keep a loss, in a process whose memory was so large."""
    source = "loss.backward()\nlosses.append(loss)"
    timeline = train("/job/a.py(1): f", "work", memory=memory, source=source)
    return [found.line for found in timeline.kept_losses]


def test_sources_are_read_only_where_memory_grows():
    reads = [[0, 1, 100], [1, 6, 101], [2, 12, 102]]
    assert kept(reads) == []
    assert kept([*reads[:2], [2, 12, 200]]) == [2]


@pytest.fixture
def recorder(tmp_path):
    return Recorder(str(tmp_path)), tmp_path


def written(recorder, folder):
    recorder.facts = {"pid": 1, "device": "cpu"}
    recorder.flush_records()
    (path,) = folder.glob("*.spans")
    return read_process(path)


def test_a_look_that_came_late_tells_no_line_of_the_call_it_was_wanted_in(recorder):
    """Wanted while the optimizer stepped, had 40 ms later, in the next wait for a batch: Python
    ran, but what was seen then did not."""
    made, folder = recorder
    names = [made.name_number(n) for n in ("Optimizer.step#SGD.step", "whyidle::backward")]
    stack = made.stack_number("/job/train.py(9): prepare")
    made.add((ms(0), ms(10), 1, names[0], ANNOTATION))
    made.add((ms(60), ms(90), 1, names[1], OP))
    made.samples.append((ms(5), -1, 1, stack, 40_000))
    line = written(made, folder)
    (row,) = [i for i, d in enumerate(line.host.detail) if d >= 0]
    assert line.host.start[row] + line.base_ns == ms(5)
    assert line.host.end[row] + line.base_ns <= ms(10)
    assert line.host.kind[row] == HostKind.PYTHON
    assert line.details[line.host.detail[row]].stack == ""
    assert "prepare" not in line.names[line.host.name[row]]


@pytest.mark.parametrize(("kind", "blocked"), [("_MultiProcessing", 0.0), ("_Other", 1 / 6)])
def test_a_look_between_two_waits_for_batches_shows_no_blocking_call(recorder, kind, blocked):
    """One look a step, at work: the thread sleeps for two thirds of the time until the next."""
    made, folder = recorder
    texts = f"enumerate(DataLoader)#{kind}DataLoaderIter.__next__", "whyidle::backward"
    batch, backward, step = (made.name_number(n) for n in (*texts, "Optimizer.step#SGD.step"))
    stack = made.stack_number("/job/train.py(9): forward;/job/train.py(20): main")
    for at in range(0, 60 * 20, 60):
        made.add((ms(at), ms(at + 40), 1, batch, ANNOTATION))
        made.samples.append((ms(at + 45), ms(at // 3), 1, stack, 0))
        made.add((ms(at + 50), ms(at + 58), 1, backward, OP))
        made.add((ms(at + 58), ms(at + 60), 1, step, ANNOTATION))
    found = Facts(written(made, folder)).bucket_share("blocked")
    assert found == pytest.approx(blocked, abs=0.02)


@pytest.mark.parametrize(
    ("queued", "threads", "told"), [((5, 9), (1, 1), True), ((5, -1), (1, 1), False),
                                    ((5, 9), (1, 2), False)]
)  # fmt: skip
def test_the_pace_of_one_thread_is_read(recorder, queued, threads, told):
    made, folder = recorder
    made.add((ms(1), ms(10), 1, made.name_number("whyidle::backward"), OP))
    for time, ran, waited, thread in zip((2, 8), (100, 300), queued, threads, strict=True):
        made.add_row("clock", CLOCK, (ms(time), ran, waited, thread))
    pace = written(made, folder).pace
    assert (pace is not None) is told
    if told:
        assert (pace.time / 1e6).tolist() == [1.0, 7.0]
        assert pace.ran.tolist() == [100, 300]
        assert pace.queued.tolist() == [5, 9]


def test_layouts_are_those_of_the_writer():
    assert _samples.SAMPLE.itemsize == SAMPLE.size
    assert probe.CLOCK.itemsize == CLOCK.size
    assert np.frombuffer(SAMPLE.pack(1, 2, 3, 4, 5), _samples.SAMPLE)[0].tolist() == (1, 2, 3, 4, 5)


@pytest.mark.parametrize(
    ("leaf", "waits"),
    [
        ("/env/lib/python3.11/socket.py(706): readinto", True),
        ("/env/lib/python3.11/selectors.py(415): select", True),
        ("/env/lib/python3.11/subprocess.py(2021): _try_wait", True),
        ("/env/lib/python3.11/json/decoder.py(355): raw_decode", False),
        ("/env/lib/python3.11/socket.py(120): __init__", False),
        ("/job/socket.py(706): readinto", False),
    ],
)
@pytest.mark.parametrize("look", ["work", "python"])
def test_a_short_wait_is_known_by_the_call_it_is_in(leaf, waits, look):
    """The kernel's count of a thread's time is too coarse for it. With the interpreter's lock
    taken, the thread runs Python."""
    shares = Facts(train(leaf, look)).attribution
    blocked = 0.6 if waits and look == "work" else 0.0
    assert shares["interruption"] == pytest.approx(blocked, abs=0.1)
