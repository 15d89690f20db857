"""Knobs that turn one switch of PyTorch's or Python's: gc, autograd, matmul, torch."""

import gc
import multiprocessing

import pytest
import small_jobs as jobs
import torch
from torch.utils.data import DataLoader, Dataset

from whyidle import catalog
from whyidle.causes.interruption.python_gc_pauses import THINNED_STEPS
from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Predicted
from whyidle.model.proof_facts import InterruptionFacts
from whyidle.probe import knobs


class Cycle:
    """Garbage that only the collector frees."""

    alive = 0

    def __init__(self):
        self.itself = self
        Cycle.alive += 1

    def __del__(self):
        Cycle.alive -= 1


def test_the_collector_rests_after_warm_up_and_still_frees_cycles(turn, monkeypatch):
    monkeypatch.setattr("whyidle.probe.knobs.gc.WHOLE", 2)
    plain = jobs.train(jobs.model(), steps=40)
    session = turn({"gc.freeze": True, "gc.collect_interval_steps": 4})
    seen = []

    def garbage(step):
        Cycle()
        seen.append((gc.isenabled(), Cycle.alive))

    assert jobs.train(jobs.model(), steps=40, after=garbage) == plain
    assert session.applied == {"gc.freeze": 1, "gc.collect_interval_steps": 1}
    assert [enabled for enabled, _ in seen] == [True] * 4 + [False] * 36
    assert gc.get_freeze_count() > 0
    assert max(alive for _, alive in seen) <= 2 * 4 + 5
    session.undo_changes()
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0


def test_asked_for_collections_come_as_often_as_is_foretold():
    predicted = Predicted(speedup=1.1, low=1.1, high=1.1, method="")
    facts = InterruptionFacts(explicit=True, thinned=predicted)
    asked = Proof("", predicted, (), low=0.1, high=0.1, facts=facts)
    plan = catalog.load_fixes()["gc-thinned"].decide(asked)
    assert [edit.value for edit in plan.edits] == [THINNED_STEPS]


def test_a_script_that_collects_by_itself_is_left_alone(turn):
    session = turn({"gc.freeze": True, "gc.collect_interval_steps": 50})
    gc.disable()
    try:
        jobs.train(jobs.model(), steps=8)
        assert gc.get_freeze_count() == 0
        assert "turned the collector off" in session.declined["gc.freeze"]
    finally:
        gc.enable()


def test_a_script_that_asks_for_collections_goes_on_asking_and_finds_what_is_new(turn):
    session = turn({"gc.freeze": True})
    seen = []

    def collects(step):
        Cycle()
        frozen, asked = gc.get_freeze_count(), len(gc.get_objects())
        gc.collect()
        seen.append((frozen, asked, gc.isenabled(), Cycle.alive))

    jobs.train(jobs.model(), steps=8, after=collects)
    assert session.applied == {"gc.freeze": 1}
    assert {state[2:] for state in seen} == {(True, 0)}  # as often as it asks, nothing is left
    before, after = seen[0], seen[-1]
    assert before[0] == 0 < after[0]
    assert after[1] < 0.5 * before[1]
    session.undo_changes()
    assert gc.get_freeze_count() == 0


def test_collections_of_the_script_are_thinned_once_it_steps(turn):
    session = turn({"gc.collect_interval_steps": 4})
    gc.freeze()  # what the other tests left is not looked at each time
    session.undo.append(gc.unfreeze)
    Cycle()
    gc.collect()
    Cycle()
    gc.collect()
    assert Cycle.alive == 0  # before the first step nothing recurs
    seen = []

    def collects(step):
        Cycle()
        gc.collect()
        seen.append(Cycle.alive)

    jobs.train(jobs.model(), steps=12, after=collects)
    assert max(seen) > 0 == min(seen[1:])
    assert seen.count(0) == 3
    assert session.applied == {"gc.collect_interval_steps": 9}


def test_anomaly_mode_stays_off(turn):
    plain = jobs.train(jobs.model())
    session = turn({"autograd.anomaly_mode": False})
    torch.autograd.set_detect_anomaly(True)
    assert not torch.is_anomaly_enabled()
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        assert not torch.is_anomaly_enabled()
    assert jobs.train(jobs.model()) == plain
    assert session.applied["autograd.anomaly_mode"] >= 2


def test_anomaly_mode_is_never_switched_on(turn):
    session = turn({"autograd.anomaly_mode": True})
    assert "autograd.anomaly_mode" in session.declined
    assert not session.undo


def test_the_precision_of_products_stands(turn):
    before = torch.get_float32_matmul_precision()
    session = turn({"matmul.precision": "high"})
    torch.set_float32_matmul_precision("highest")
    assert torch.get_float32_matmul_precision() == "high"
    assert session.applied == {"matmul.precision": 1}
    session.undo_changes()
    assert torch.get_float32_matmul_precision() == before


class Threads(Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, index):
        return torch.get_num_threads()


def test_threads_stand_but_workers_keep_to_one(turn):
    session = turn({"torch.num_threads": 2})
    torch.set_num_threads(5)
    assert torch.get_num_threads() == 2
    assert session.applied == {"torch.num_threads": 1}
    assert next(iter(DataLoader(Threads(), batch_size=2, num_workers=1))).tolist() == [1, 1]


def test_a_worker_that_is_no_copy_keeps_to_one_as_well(turn, monkeypatch):
    turn({"torch.num_threads": 2})
    monkeypatch.setattr(multiprocessing.process.current_process(), "_config", {"daemon": True})
    torch.set_num_threads(1)
    assert torch.get_num_threads() == 1


def test_unknown_switches_decline_alone(turn):
    session = turn({"torch.compile_all": True, "torch.num_threads": 1})
    assert session.declined == {"torch.compile_all": knobs.NO_FORM}
    assert session.applied == {"torch.num_threads": 1}


@pytest.mark.parametrize("value", [True, False])
def test_no_line_of_the_script_changes_whether_algorithms_are_searched_for(turn, value):
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = not value
    try:
        session = turn({"torch.cudnn_benchmark": value})
        torch.backends.cudnn.benchmark = not value
        assert torch.backends.cudnn.benchmark is value
        with torch.backends.cudnn.flags(enabled=True, benchmark=not value):
            assert torch._C._get_cudnn_benchmark() is value
        assert session.applied == {"torch.cudnn_benchmark": 1}
        session.undo_changes()
        assert torch.backends.cudnn.benchmark is not value
    finally:
        torch.backends.cudnn.benchmark = before
