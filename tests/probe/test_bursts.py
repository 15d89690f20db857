"""When bursts begin and end, by a clock of our own and a profiler that only counts."""

import itertools
import json
import os
import threading
import time
from collections import deque
from pathlib import Path

import pytest
import standin

from whyidle.probe.core import burst_budget, burst_scheduler, bursts
from whyidle.probe.frameworks.torch import foreign_profilers

torch = pytest.importorskip("torch", reason="PyTorch is not installed")


class Loop(standin.Loop):
    def __init__(self, folder):
        super().__init__(folder)
        self.recorder.file_path = lambda suffix: f"{folder}/1.{suffix}"
        self.recorder.facts = {"first_step": 0, "optimizer": {"tensors": 4}, "device": "cpu"}


class Profiler:
    cuda, suffix = False, "json"

    def __init__(self, facts):
        self.running, self.log, self.is_busy = False, [], None

    def why_unavailable(self):
        return None

    def busy(self):
        return self.is_busy

    captures = stays = False

    def is_capturing(self):
        return self.captures

    def stay(self):
        self.stays = True

    begins = staticmethod(lambda: None)

    def start(self, label):
        self.begins()
        self.running = True
        self.log.append(label)

    def mark(self, label):
        self.log.append(label)

    def stop(self):
        self.running = False
        self.log.append("stop")
        return "{}"

    def save(self, result, path):
        return Path(path).write_text(result)

    estimates = None

    def estimate_events(self, step_s):
        return self.estimates

    def count_nodes(self):
        return 0

    def count_compilations(self):
        return 0


class Run:
    """A job that makes steps of ``step_s``, and a sampler that considers once a second."""

    def __init__(self, monkeypatch, folder):
        self.at = 0
        for module in (bursts, burst_scheduler):
            monkeypatch.setattr(module, "clock_ns", lambda: self.at)
        self.loop = Loop(folder)
        self.bursts = bursts.Bursts(self.loop, Profiler)
        self.loop.add_listener(self.bursts)
        self.loop.lead, self.loop.steps = id(self), 0
        self.second = 0

    def train(self, seconds, step_s=0.01, waited=0.0):
        until = self.at + int(seconds * 1e9)
        while self.at < until:
            self.at += int(step_s * 1e9)
            self.loop.waited += int(step_s * waited * 1e9)
            self.loop.steps += 1
            self.loop.ends.append(self.at)
            if self.bursts.wants_steps:
                self.loop.notify("on_step", self)
            if self.at // 10**9 > self.second:
                self.second = self.at // 10**9
                self.loop.notify("on_chore")

    def begin(self):
        """Train until the moment at which a burst is under way."""
        while not (self.bursts.profiler and self.bursts.profiler.running):
            assert self.at < 10**12, "no burst in a thousand seconds"
            self.train(0.01)
        return self.bursts.profiler

    @property
    def told(self):
        return self.loop.recorder.documents["bursts.json"]


@pytest.fixture
def run(monkeypatch, tmp_path):
    return Run(monkeypatch, tmp_path)


def test_one_burst_once_steady(run, tmp_path):
    run.train(40)
    (one,) = run.told["bursts"]
    assert one["state"] == "recorded"
    assert one["steps"] == 3
    assert one["before_s"] == pytest.approx(0.01)
    assert one["after_s"] == pytest.approx(0.01)
    assert (tmp_path / one["file"]).read_text() == "{}"
    assert run.told["off"] is None
    assert run.bursts.profiler.log[-1] == "stop"
    assert len(run.bursts.profiler.log) == 4
    begin, end = run.told["windows"][0]
    assert end - begin == 30_000_000
    assert begin > burst_budget.LEAST_S * 1e9
    assert json.dumps(run.told)


def test_a_run_that_is_only_looked_at_has_its_burst_soon_whatever_it_costs(monkeypatch, tmp_path):
    monkeypatch.setattr(burst_budget, "price_s", lambda events, cuda: 1.0)
    usual = Run(monkeypatch, tmp_path)
    usual.train(8)
    assert (usual.told["bursts"], usual.told["needs_s"]) == ([], 1.0 / burst_budget.FIRST_SHARE)
    monkeypatch.setenv("WHYIDLE_PROFILE", "look")
    run = Run(monkeypatch, tmp_path)
    assert run.bursts.is_first_awaited
    run.begin()
    assert run.at < 5e9
    assert run.bursts.is_first_awaited
    run.train(3)
    assert [one["state"] for one in run.told["bursts"]] == ["recorded"]
    assert not run.bursts.is_first_awaited


def test_long_steps_are_recorded_soon_where_they_are_only_looked_at(monkeypatch, tmp_path):
    monkeypatch.setenv("WHYIDLE_PROFILE", "look")
    run = Run(monkeypatch, tmp_path)
    run.train(18 * 1.5, 1.5)
    assert [one["steps"] for one in run.told["bursts"]] == [3]


def test_no_burst_is_awaited_that_will_not_come(run):
    run.loop.recorder.facts["rank"] = 1
    assert not run.bursts.is_first_awaited
    run.loop.recorder.facts["rank"] = 0
    assert run.bursts.is_first_awaited
    run.bursts.forbid_bursts("the job has a profiler of its own")
    assert not run.bursts.is_first_awaited


def test_a_boundary_is_a_step_of_the_lead_while_something_is_wanted(run):
    reached = []
    run.bursts.wanted_work = lambda: reached.append(run.loop.steps)
    run.bursts.on_step(object())
    assert reached == []
    run.bursts.on_step(run)
    assert len(reached) == 1
    run.bursts.wanted_work = None
    assert not run.bursts.wants_steps


def test_of_a_step_with_too_many_operators_it_is_told_how_many(run, monkeypatch):
    monkeypatch.setattr(Profiler, "count_nodes", lambda _: 9000 * run.loop.steps)
    run.train(20, step_s=0.1)
    assert run.told["off"] == "a step has too many operators"
    assert run.told["counted_s"] == (9000, pytest.approx(0.1))


def test_where_three_steps_have_too_many_operators_one_is_recorded(run, monkeypatch):
    monkeypatch.setattr(Profiler, "count_nodes", lambda _: 3000 * run.loop.steps)
    run.train(60, step_s=0.1)
    assert [entry["steps"] for entry in run.told["bursts"]] == [1]


def test_what_the_profiler_estimates_is_no_node_to_count(run, monkeypatch):
    monkeypatch.setattr(Profiler, "estimates", burst_budget.MOST_EVENTS + 1)
    run.train(20)
    assert (run.told["off"], run.told["counted_s"]) == ("a step has too many operators", None)
    assert run.told["windows"], "the estimate disturbs the steps beside it"


def test_none_where_so_many_operators_would_take_too_long(run, monkeypatch):
    monkeypatch.setattr(burst_budget, "FIRST_S", 0.1)
    run.loop.recorder.facts["optimizer"]["tensors"] = 800
    run.train(120, step_s=0.1)
    assert not run.told["bursts"]
    assert 120 < run.told["needs_s"] < 320
    run.train(200, step_s=0.1)
    assert run.told["bursts"]
    run.loop.recorder.facts["optimizer"]["tensors"] = 8000
    run.train(2000, step_s=0.2)
    assert "too many operators" in run.told["off"]


@pytest.mark.parametrize("look", [False, True])
def test_none_while_steps_change_unless_they_never_stop(run, look):
    run.bursts.look = look
    early = 0 if look else 2  # for any
    for i in range(early + burst_scheduler.RESTLESS):
        run.train(1, step_s=0.02 if i % 2 else 0.01)
    assert not run.loop.recorder.documents
    for i in range(30):
        run.train(1, step_s=0.02 if i % 2 else 0.01)
    assert run.told["bursts"][0]["state"] == "recorded"
    assert run.told["off"] is None


def test_a_job_of_whose_steps_no_end_is_known_is_left_alone(run):
    run.loop.ends = deque(maxlen=0)
    run.train(40)
    assert not run.loop.faults
    assert not run.loop.recorder.documents


def test_none_while_something_compiles(run, monkeypatch):
    compiled = [0]
    monkeypatch.setattr(Profiler, "count_compilations", lambda _: compiled[0])
    for _ in range(40):
        compiled[0] += 1
        run.train(1)
    assert not run.loop.recorder.documents
    run.train(10)
    assert len(run.told["bursts"]) == 1


def test_again_when_the_picture_has_changed_for_a_while(run):
    run.train(60)
    run.train(3, step_s=0.02)
    run.train(30)
    assert len(run.told["bursts"]) == 1
    run.train(60, step_s=0.02)
    assert len(run.told["bursts"]) == 2
    run.train(60, step_s=0.02, waited=0.6)
    assert len(run.told["bursts"]) == 3


def test_what_a_burst_has_taken_is_the_price_of_the_next(run, monkeypatch):
    begin = Profiler.start

    def slow(self, *words):
        run.at += 2 * 10**9
        begin(self, *words)

    monkeypatch.setattr(Profiler, "start", slow)
    run.train(40)
    assert run.told["bursts"][0]["cost_s"] == pytest.approx(2.0, abs=0.1)
    run.train(600, step_s=0.02)  # what was spent is affordable after 400 s, as much again after 800
    assert len(run.told["bursts"]) == 1
    run.train(300, step_s=0.02)
    assert len(run.told["bursts"]) == 2


def test_a_handful_at_most(run):
    for i in range(12):
        run.train(60, step_s=0.01 if i % 2 else 0.02)
    assert len(run.told["bursts"]) == burst_scheduler.MOST_BURSTS
    assert run.told["off"].startswith("the limit of recordings")


def test_no_other_burst_where_steps_stay_slower(run):
    run.begin()
    run.train(0.04)
    run.train(60, step_s=0.012)
    run.train(120, step_s=0.03)
    (one,) = run.told["bursts"]
    assert one["after_s"] == pytest.approx(0.012)
    assert "slower" in run.told["off"]


def test_a_slow_moment_after_a_burst_is_none(run):
    run.begin()
    run.train(0.04)
    run.train(2, step_s=0.08)
    run.train(60)
    assert run.told["off"] is None


@pytest.mark.parametrize("rank", ["1", 3])
def test_one_rank_only(run, rank):
    run.loop.recorder.facts["rank"] = rank
    run.train(60)
    assert not run.loop.recorder.documents


def test_nobody_waits_for_what_the_job_stands_in_the_way_of(run):
    """As with its own profiler on, or anomaly mode: a look of a trial would go on for nothing."""
    assert run.bursts.is_first_awaited
    run.train(1)
    run.bursts._is_chosen_process()
    run.bursts.profiler.is_busy = "anomaly mode is on"
    run.train(20)
    assert not run.bursts.entries
    assert not run.bursts.is_first_awaited
    assert run.told["put_off"] == "anomaly mode is on"


@pytest.mark.parametrize(("first", "slower"), [(0.5, 0.0), (0.012, 0.006)])
def test_what_falls_into_one_of_the_steps_is_not_the_recordings_cost(run, first, slower):
    """An evaluation, say, in one of three; recording makes all of them slower."""
    run.begin()
    for step_s in (first, 0.01 + slower / 3, 0.01 + slower / 3):
        run.train(step_s, step_s)
    run.train(5)
    (one,) = run.told["bursts"]
    assert one["steps"] == 3
    assert one["cost_s"] == pytest.approx(slower, abs=1e-3)


def test_never_while_the_profiler_is_refused(run, monkeypatch):
    monkeypatch.setattr(Profiler, "why_unavailable", lambda self: "somebody traces")
    run.train(20)
    assert run.told["off"] == "somebody traces"


def test_the_job_s_own_profiler_comes_first(run):
    profiler = run.begin()
    run.bursts.forbid_bursts("the job uses its own profiler")
    assert not profiler.running
    assert profiler.stays
    assert run.told["bursts"][0]["state"].startswith("abandoned")
    run.train(120)
    assert len(run.told["bursts"]) == 1


def test_the_job_s_own_profiler_is_seen(run, monkeypatch):
    monkeypatch.delenv("WHYIDLE_PROFILE", raising=False)
    before = torch.autograd.profiler.profile.__init__
    made = bursts.install_bursts(run.loop, Profiler)
    foreign_profilers.watch_profilers(run.loop, made.forbid_bursts)
    try:
        torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
        assert "its own profiler" in made.off
    finally:
        for undo in list(run.loop.undo.values()):
            undo()
    assert torch.autograd.profiler.profile.__init__ is before


def test_a_fork_takes_it_down(run):
    profiler = run.begin()
    if os.fork() == 0:
        os._exit(0)
    os.wait()
    assert not profiler.running
    assert "fork" in run.told["bursts"][0]["state"]


def test_one_that_came_to_nothing_is_made_again_a_few_times(run):
    run.begin()
    run.bursts.abandon_recording("a fork")
    run.train(120)
    assert [one["state"] for one in run.told["bursts"]] == ["abandoned: a fork", "recorded"]
    for _ in range(2 * burst_scheduler.MOST_ATTEMPTS):
        run.train(30, step_s=0.01 + 0.01 * (run.second % 2))
        run.bursts.abandon_recording("a fork")
    assert len(run.told["bursts"]) <= burst_scheduler.MOST_ATTEMPTS


def test_a_step_that_waits_for_those_before_it_is_no_long_one(run):
    """The host runs ahead of its device, until there is no room for more."""
    lengths = itertools.cycle([1.0] + 10 * [0.02])
    while not (run.bursts.profiler and run.bursts.profiler.running):
        assert run.at < 10**12
        length = next(lengths)
        run.train(length, step_s=length)
    run.at += 10**9
    run.bursts.on_sample()
    assert run.bursts._call is None
    run.at += 10**10
    run.bursts.on_sample()
    assert run.bursts._call is not None


def watch_until_it_stops(run, profiler):
    """As the sampler's thread does; the main thread acts at its next lines."""
    watcher = threading.Thread(target=run.bursts.on_sample)
    watcher.start()
    watcher.join()
    until = time.monotonic() + 10
    while profiler.running and time.monotonic() < until:
        time.sleep(0.001)


def test_a_step_that_does_not_end_takes_it_down(run):
    profiler = run.begin()
    run.at += 10**9
    watch_until_it_stops(run, profiler)
    assert not profiler.running
    assert "too long" in run.told["bursts"][0]["state"]


def test_what_attaching_takes_is_no_late_step(run, monkeypatch):
    """A second or more where a GPU is recorded for the first time."""

    def attach():
        run.at += 2 * 10**9

    monkeypatch.setattr(Profiler, "begins", staticmethod(attach))
    run.begin()
    run.bursts.on_sample()
    assert run.bursts._call is None
    run.at += 10**9
    run.bursts.on_sample()
    assert run.bursts._call is not None


def test_a_graph_that_is_being_captured_is_not_disturbed(run):
    profiler = run.begin()
    profiler.captures = True
    run.bursts.abandon_recording("a step took too long")
    assert profiler.running
    profiler.captures = False
    run.at += 2 * bursts.LATER_NS
    watch_until_it_stops(run, profiler)
    assert not profiler.running


@pytest.mark.parametrize("hook", ["start", "mark", "stop", "busy"])
def test_a_fault_on_the_training_thread_ends_bursts_only(run, monkeypatch, hook):
    def broken(self, *_):
        self.running = hook != "stop"
        monkeypatch.undo()
        raise ValueError("a planted fault")

    monkeypatch.setattr(Profiler, hook, broken)
    run.train(60)
    ((where, error),) = run.loop.faults
    assert (where, str(error)) == ("burst", "a planted fault")
    assert run.bursts.closed
    assert run.bursts not in run.loop.listeners
    assert not run.bursts.profiler.running
    assert all(end for _, end in run.bursts.windows)


@pytest.mark.parametrize("error", [OSError(28, "No space left"), RuntimeError("kineto")])
def test_a_trace_that_cannot_be_written_costs_the_trace(run, monkeypatch, error):
    def broken(*_):
        raise error

    monkeypatch.setattr(Profiler, "save", broken)
    run.train(120)
    assert len(run.bursts.entries) == 1
    assert run.bursts._result is None
    assert len(run.loop.faults) == isinstance(error, RuntimeError)


def test_what_was_recorded_last_is_kept_at_the_end(run, tmp_path):
    run.begin()
    run.second = 10**9  # the sampler's thread does not come to it
    run.train(0.04)
    assert not list(tmp_path.iterdir())
    run.bursts.stop_listening()
    assert [path.name for path in tmp_path.iterdir()] == ["1.burst-1.json"]
    assert run.bursts.closed
