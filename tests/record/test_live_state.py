"""Looking at a recording that grows: cheap, and told as a finished run would be."""

import time
from pathlib import Path

import pytest

from whyidle.errors import InputError
from whyidle.probe.core.recorder import ANNOTATION, OP, Recorder
from whyidle.readers import probe
from whyidle.record import live_state
from whyidle.record.live_state import MOST_RECORDS, LiveWatch, copy_recent
from whyidle.record.recording_diagnosis import note_end

MS = 1_000_000


@pytest.fixture
def recording(tmp_path):
    recorder = Recorder(str(tmp_path))
    recorder.facts = {"pid": 1, "device": "cpu"}
    return recorder, tmp_path


def grow(recorder, steps, length_ms, begin):
    names = [
        recorder.name_number(name)
        for name in (
            "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
            "whyidle::backward",
            "Optimizer.step#SGD.step",
        )
    ]
    for step in range(steps):
        at = begin + step * length_ms * MS
        middle, end = at + length_ms * MS // 2, at + length_ms * MS
        recorder.add((at, middle, 1, names[0], ANNOTATION))
        recorder.add((middle, end - MS // 10, 1, names[1], OP))
        recorder.add((end - MS // 10, end, 1, names[2], ANNOTATION))
    recorder.flush_records()
    return begin + steps * length_ms * MS


def test_steps_are_followed_as_they_come(recording):
    recorder, folder = recording
    watch = LiveWatch(folder)
    assert watch.current_moment({}).steps == 0
    now = time.perf_counter_ns()
    end = grow(recorder, 50, 10, now - 500 * MS)
    assert watch.current_moment({}).steps == 50
    grow(recorder, 20, 10, end)
    moment = watch.current_moment({"x": 1})
    assert moment.steps == 70
    assert moment.step_s == pytest.approx(0.010)
    assert moment.reading == {"x": 1}
    watch.refresh_diagnosis()
    told = watch.current_moment({}).diagnosis
    assert told.attribution.input == pytest.approx(0.5, abs=0.05)


def test_where_the_command_was_started_is_known_while_it_runs(recording):
    recorder, folder = recording
    note_end(folder, "x", ["python", "train.py"], None)
    grow(recorder, 50, 10, time.perf_counter_ns() - 500 * MS)
    watch = LiveWatch(folder)
    watch.current_moment({})
    watch.refresh_diagnosis()
    assert watch.current_moment({}).diagnosis.run.folder == str(Path.cwd())


def test_what_changed_is_said_once_it_has(recording, monkeypatch):
    recorder, folder = recording
    monkeypatch.setattr("whyidle.record.live_state.WINDOW_NS", 2_000 * MS)
    watch = LiveWatch(folder, every_s=0.0, share=1e9)
    end = grow(recorder, 100, 10, 1_000 * MS)
    watch.current_moment({})
    watch.refresh_diagnosis()
    assert watch.current_moment({}).changed == ""
    grow(recorder, 100, 30, end)
    watch.current_moment({})
    watch.refresh_diagnosis()
    assert "steps 10 ms → 30 ms" in watch.current_moment({}).changed


def test_a_tail_is_bounded_and_a_recording(recording):
    recorder, folder = recording
    grow(recorder, 4000, 1, 1_000 * MS)
    into = folder / "tail"
    into.mkdir()
    copy_recent(folder, into)
    (pid,) = probe.trained_processes(into)
    spans = (into / f"{pid}.spans").stat().st_size
    assert spans <= len(probe.MAGIC) + MOST_RECORDS * probe.SPAN.itemsize
    assert len(probe.load(into / f"{pid}.spans").host)


def test_cores_in_use(recording, monkeypatch):
    recorder, folder = recording
    grow(recorder, 5, 10, time.perf_counter_ns())
    watch, clock = LiveWatch(folder), [100.0]
    monkeypatch.setattr(live_state.time, "monotonic", lambda: clock[0])
    assert watch.current_moment({"job_cpu_user_s": 1.0, "job_cpu_system_s": 0.0}).cores is None
    clock[0] += 2.0
    assert watch.current_moment(
        {"job_cpu_user_s": 4.0, "job_cpu_system_s": 0.0}
    ).cores == pytest.approx(1.5)


def test_a_dear_diagnosis_comes_less_often(recording, monkeypatch):
    recorder, folder = recording
    grow(recorder, 50, 10, time.perf_counter_ns())
    clock, spent = [100.0], [0.0]
    monkeypatch.setattr(live_state.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(live_state.time, "thread_time", lambda: spent[0])
    made = []

    def diagnosed(folder, process):
        made.append(clock[0])
        spent[0] += 0.1
        raise InputError("too early")

    watch = LiveWatch(folder, diagnose=diagnosed)
    watch.current_moment({})
    for second in range(60):
        clock[0] = 100.0 + second
        watch.refresh_diagnosis()
    # the first loads the causes, which does not come again; then a tenth of a second of work is
    # followed by as much rest as makes it half a hundredth of a core
    assert made == [100.0, 102.0, 122.0, 142.0]


def test_the_trend_has_one_value_a_second(recording, monkeypatch):
    recorder, folder = recording
    clock = [1_000 * 1_000_000_000]
    monkeypatch.setattr(live_state.time, "perf_counter_ns", lambda: clock[0])
    watch = LiveWatch(folder)
    end = grow(recorder, 100, 10, clock[0])
    clock[0] = end
    assert [round(s, 4) for s in watch.current_moment({}).trend_s] == [0.01]
    assert len(watch.current_moment({}).trend_s) == 1
    clock[0] = grow(recorder, 100, 30, end)
    assert [round(s, 4) for s in watch.current_moment({}).trend_s] == [0.01, 0.03]


def test_without_an_optimizer_backward_passes_are_followed(recording):
    recorder, folder = recording
    number, now, watch = (
        recorder.name_number("whyidle::backward"),
        time.perf_counter_ns(),
        LiveWatch(folder),
    )
    for steps, seen in ((10, 0), (15, 25), (5, 30)):
        for _ in range(steps):
            recorder.add((now, now + 9 * MS, 1, number, OP))
            now += 10 * MS
        recorder.flush_records()
        assert watch.current_moment({}).steps == seen
    assert watch.current_moment({}).step_s == pytest.approx(0.010)
    grow(recorder, 12, 10, now)
    assert watch.current_moment({}).steps == 12
