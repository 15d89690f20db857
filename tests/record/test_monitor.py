"""The monitor: cheap, harmless, and its file true."""

import os
import sys
import threading
import time
from types import SimpleNamespace

import pytest

from whyidle.errors import InputError
from whyidle.model.live.telemetry import Meter, Target
from whyidle.model.live.telemetry_lines import read_telemetry
from whyidle.record.monitor import (
    DOUBLING_BYTES,
    JITTER,
    MOST,
    OWN_SHARE,
    WINDOW_NS,
    AppendOnlyFile,
    ClockReading,
    Monitor,
    ReadBudget,
    _OpenedSource,
)

pytestmark = pytest.mark.real_processes(
    "the monitor reads beside a process, and its own cost is measured"
)

METER = Meter(id="x", unit="1", kind="gauge", meaning="x", group="x", cost_us=1)


def load(path):
    return read_telemetry(path.read_bytes().splitlines(keepends=True))


class Reader:
    """Does what it is told at each read."""

    def __init__(self, each):
        self.each, self.reads, self.closed = each, 0, 0
        self.facts, self.missing = {"name": "fake"}, {}

    def read(self):
        self.reads += 1
        return self.each(self.reads)

    def close(self):
        self.closed += 1


def source(each, period_s=0.005, opened=None):
    reader = Reader(each)

    def begin(target):
        if opened is not None:
            raise opened
        return reader

    return SimpleNamespace(
        SIGNALS=(METER,), PERIOD_S=period_s, LIVE=True, open=begin, reader=reader
    )


def watch(path, enough=lambda: True, starting=None, **sources):
    """A monitor that ran until there was enough of it, however busy the machine is."""
    monitor = Monitor(Target(), path, sources)
    if starting is not None:
        starting.append(monitor)
    monitor.start_thread()
    wait(enough)
    assert monitor.stop_thread()
    return monitor


def wait(enough):
    deadline = time.monotonic() + 20
    while not enough():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_reads_each_source_in_its_own_time(tmp_path):
    path = tmp_path / "t"
    often, seldom = source(lambda n: {"x": n}), source(lambda n: {"y": n}, period_s=60)
    monitor = watch(path, lambda: often.reader.reads > 5, often=often, seldom=seldom)
    told = load(path)
    assert told.series["x"].value.tolist() == list(range(1, often.reader.reads + 1))
    assert told.series["y"].value.tolist() == [1, 2]  # at the start, and a last time at the end
    assert often.reader.closed == seldom.reader.closed == 1
    assert monitor.latest_reading == {"x": often.reader.reads, "y": 2}
    assert told.facts == {"name": "fake"}
    assert told.series["monitor_cpu_s"].value[-1] == pytest.approx(monitor.cpu_s)
    assert abs(told.offset_ns + told.series["x"].time_ns[0] - time.time_ns()) < 60e9


def fail(number):
    if number == 3:
        raise ZeroDivisionError("no")
    return {"x": number}


def test_a_source_that_fails_is_given_up_and_the_others_go_on(tmp_path):
    path = tmp_path / "t"
    bad, good = source(fail), source(lambda n: {"y": n})
    monitor = watch(path, lambda: good.reader.reads > 5, bad=bad, good=good)
    assert (bad.reader.reads, bad.reader.closed) == (3, 1)
    assert "ZeroDivisionError" in monitor.absent["bad"].reason
    assert "ZeroDivisionError" in load(path).missing["x"].reason


def test_a_source_that_cannot_be_opened_says_why_in_the_file(tmp_path):
    path = tmp_path / "t"
    error = InputError("No.", why="No driver.", hint="Get one.")
    watch(path, gone=source(dict, opened=error), odd=source(dict, opened=KeyError("k")))
    absent = load(path).missing["x"]
    assert "KeyError" in absent.reason or (absent.reason, absent.how) == ("No driver.", "Get one.")


def test_a_hanging_source_does_not_keep_the_command(tmp_path, monkeypatch):
    monkeypatch.setattr("whyidle.record.monitor.STOP_S", 0.05)
    slow = source(lambda n: time.sleep(1) or {})
    monitor = Monitor(Target(), tmp_path / "t", {"slow": slow})
    monitor.start_thread()
    wait(lambda: slow.reader.reads)
    began = time.perf_counter()
    assert not monitor.stop_thread()
    assert time.perf_counter() - began < 0.9


def test_a_folder_that_is_gone_costs_evidence_and_nothing_else(tmp_path):
    good = source(lambda n: {"x": n})
    monitor = watch(tmp_path / "no/such", lambda: good.reader.reads > 1, good=good)
    assert "No such file" in monitor.broken
    assert monitor.latest_reading["x"] > 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="has no /dev/full")  # noqa: PTH110
def test_a_full_disk_ends_the_file_and_nothing_else():
    file = AppendOnlyFile("/dev/full")
    file.write(b"x")
    assert "space" in file.broken
    file.write(b"y")
    file.close()


def test_where_no_thread_is_to_be_had_nothing_is_read(tmp_path, monkeypatch):
    def none_left(_):
        raise RuntimeError("can't start new thread")

    made = Monitor(Target(pid=os.getpid()), tmp_path / "t.jsonl", sources={})
    monkeypatch.setattr(threading.Thread, "start", none_left)
    with made:
        pass
    assert made.broken == "can't start new thread"


def test_never_started_stops(tmp_path):
    assert Monitor(Target(), tmp_path / "t", {}).stop_thread()


def test_a_killed_monitors_file_is_readable_until_then(tmp_path):
    path = tmp_path / "t"
    monitor = Monitor(Target(), path, {"a": source(lambda n: {"x": n}, period_s=0.001)})
    monitor.start_thread()
    wait(lambda: path.exists() and path.stat().st_size > 2000)
    content = path.read_bytes()  # as a kill at this moment would leave it
    monitor.stop_thread()
    (tmp_path / "cut").write_bytes(content[:-3])
    values = load(tmp_path / "cut").series["x"].value.tolist()
    assert values == list(range(1, len(values) + 1))


def burn(seconds):
    until = time.thread_time() + seconds
    while time.thread_time() < until:
        pass
    return {"x": 1}


def test_reads_that_are_dear_come_less_often_and_the_file_says_so(tmp_path, monkeypatch):
    """On a busy machine a thread gets little of a core: what is allowed here is less yet."""
    monkeypatch.setattr("whyidle.record.monitor.WINDOW_NS", 50_000_000)
    monkeypatch.setattr(
        "whyidle.record.monitor.ReadBudget", lambda *_: ReadBudget(limit=OWN_SHARE / 100)
    )
    path = tmp_path / "t"
    dear = source(lambda n: burn(0.005), period_s=0.01)  # half a core
    monitor = watch(
        path, lambda: monitors[0].period_stretch > 1, starting=(monitors := []), dear=dear
    )
    before, reads = monitor.period_stretch, dear.reader.reads
    assert before > 10
    assert reads < 60
    told = load(path).series["monitor_stretch"].value
    assert len(told) >= 2  # at the end of a window, and at the end of all
    assert told[0] > 10


def test_the_time_between_reads_is_stretched_and_doubles_as_the_file_grows(tmp_path):
    monitor = Monitor(Target(), tmp_path / "t", {})
    monitor.start_thread()
    assert monitor.stop_thread()
    one = _OpenedSource("a", Reader(dict), 1.0, driver=False)

    def seconds():
        return monitor._period_ns(one) / 1e9

    assert 1 - JITTER <= seconds() <= 1 + JITTER
    assert len({seconds() for _ in range(9)}) > 1  # never in step with what it watches
    one.budget.stretch = 5.0
    assert 5 * (1 - JITTER) <= seconds() <= 5 * (1 + JITTER)
    monitor._file.size = 2 * DOUBLING_BYTES
    assert 20 * (1 - JITTER) <= seconds() <= 20 * (1 + JITTER)


def test_a_driver_that_keeps_a_read_waiting_is_asked_less_often_and_the_host_is_not(tmp_path):
    """What waits in a driver may hold its lock, which takes no CPU time at all."""
    monitor = Monitor(Target(), tmp_path / "t", {})
    monitor._file = AppendOnlyFile(tmp_path / "t")

    def waiting(driver):
        one = _OpenedSource("a", Reader(lambda _: time.sleep(0.05) or {"x": 1}), 0.1, driver=driver)
        one.budget.start_accounting(0, 0)
        assert monitor._read_source(one)
        monitor._looked_at(one, [one], WINDOW_NS)  # a fortieth of the window, or nearly nothing
        return one.budget.stretch

    assert waiting(driver=True) > 2
    assert waiting(driver=False) == 1
    monitor._file.close()


def test_one_read_that_is_held_up_is_not_taken_for_all(tmp_path):
    """A driver that makes a job's context holds one for long, and would be asked no more."""
    monitor = Monitor(Target(), tmp_path / "t", {})
    monitor._file = AppendOnlyFile(tmp_path / "t")
    one = _OpenedSource("a", Reader(lambda _: {}), 0.1, driver=True)
    one.budget.start_accounting(0, 0)
    one.blocked_ns = [10_000] * 9 + [300_000_000]
    assert monitor._looked_at(one, [one], WINDOW_NS)
    assert one.budget.stretch == 1
    assert one.taken_ns == 100_000
    one.blocked_ns = [30_000_000] * 10
    assert monitor._looked_at(one, [one], 2 * WINDOW_NS)
    assert one.budget.stretch > 10


def test_what_others_leave_may_be_taken(tmp_path):
    monitor = Monitor(Target(), tmp_path / "t", {})
    monitor._file = AppendOnlyFile(tmp_path / "t")
    one, other = (_OpenedSource(name, Reader(lambda _: {}), 0.1, driver=False) for name in "ab")
    for share, stretch in ((0.1, 1.0), (0.5, 1.65)):
        for each in (one, other):
            each.budget = ReadBudget()
            each.budget.start_accounting(0, 0)
            each.taken_ns = 0
        other.taken_ns = int(share * OWN_SHARE * WINDOW_NS)
        monitor._looked_at(other, [one, other], WINDOW_NS)
        one.taken_ns = int(0.75 * OWN_SHARE * WINDOW_NS)
        monitor._looked_at(one, [one, other], WINDOW_NS)
        assert one.budget.stretch == pytest.approx(stretch)


def test_waiting_for_a_core_is_no_waiting_in_a_driver():
    assert ClockReading(90, 20, 30).blocked_ns(ClockReading(10, 0, 10)) == 40
    assert ClockReading(20, 20, 30).blocked_ns(ClockReading(10, 0, 10)) == 0


def test_each_source_has_its_own_pace(tmp_path, monkeypatch):
    monkeypatch.setattr("whyidle.record.monitor.WINDOW_NS", 50_000_000)
    gpu = Meter(id="y", unit="1", kind="gauge", meaning="y", group="y", cost_us=1, subject="gpu")
    slow = source(lambda n: time.sleep(0.02) or {"y": n}, period_s=0.01)
    slow.SIGNALS = (gpu,)
    host = source(lambda n: {"x": n}, period_s=0.05)
    monitors = []
    watch(
        tmp_path / "t",
        lambda: monitors[0].period_stretch > 10,
        starting=monitors,
        host=host,
        slow=slow,
    )
    stretches = {one.name: one.budget.stretch for one in monitors[0]._watched}
    assert stretches["slow"] > stretches["host"]


def test_processes_that_have_ended_are_not_shown_any_more(tmp_path):
    each = [{"x": 1, "busy@gpu0.pid5": 1, "threads@pid5": 2}, {"y": 3, "threads@pid6": 4}]
    two = source(lambda n: each[min(n, 2) - 1])
    monitor = watch(tmp_path / "t", lambda: two.reader.reads > 2, two=two)
    assert monitor.latest_reading == {"x": 1, "y": 3, "threads@pid6": 4}


def test_a_write_that_a_full_disk_cuts_short_is_tried_again(tmp_path, monkeypatch):
    real, calls = os.write, []

    def some(descriptor, content):
        calls.append(len(content))
        return real(descriptor, content[:4])

    monkeypatch.setattr("whyidle.record.monitor.os.write", some)
    file = AppendOnlyFile(tmp_path / "t")
    file.write(b"0123456789")
    file.close()
    assert (tmp_path / "t").read_bytes() == b"0123456789"
    assert (calls, file.size) == ([10, 6, 2], 10)


def test_it_slows_down_when_reading_is_dear(tmp_path):
    budget = ReadBudget()
    cpu = wall = 0
    for _ in range(20):  # each read costs 20 ms of CPU time, meant to come every 500 ms
        cpu, wall = cpu + 20_000_000, wall + int(500_000_000 * budget.stretch)
        budget.account_reads(cpu, wall, int(500_000_000 * budget.stretch))
    assert 4 <= budget.stretch < 8
    assert 20 / (500 * budget.stretch) <= OWN_SHARE


def test_it_speeds_up_again_and_keeps_its_bounds():
    budget = ReadBudget()
    budget.account_reads(WINDOW_NS, WINDOW_NS, 0)
    assert budget.stretch > 100
    for window in range(2, 40):
        budget.account_reads(WINDOW_NS, window * WINDOW_NS, 0)
    assert budget.stretch == 1
    budget.account_reads(10**15, 41 * WINDOW_NS, 0)
    assert budget.stretch == MOST


def test_a_window_waits_for_the_slowest_source():
    budget = ReadBudget()
    assert not budget.account_reads(10**9, WINDOW_NS, WINDOW_NS)
    assert budget.account_reads(10**9, 4 * WINDOW_NS, WINDOW_NS)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_watching_this_machine_for_a_moment(tmp_path):
    path = tmp_path / "t"
    monitor = Monitor(Target(pid=os.getpid(), environ=os.environ), path)
    monitor.start_thread()
    wait(lambda: "job_processes" in monitor.latest_reading)
    assert monitor.stop_thread()
    told = load(path)
    assert told.series["job_processes"].value[0] >= 1
    assert told.series[f"memory_resident_bytes@pid{os.getpid()}"].value[-1] > 0
    assert "nvml" in monitor.absent or "busy_ratio@gpu0" in told.series
