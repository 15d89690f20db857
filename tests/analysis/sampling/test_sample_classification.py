"""What a watched thread did between two looks, where phases are shorter than the time between."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from whyidle.analysis.facts import Facts
from whyidle.analysis.sampling.sample_classification import runs_operators_alone
from whyidle.model.process_facts import ProcessFacts, Switches
from whyidle.model.timeline import HostKind
from whyidle.readers import probe
from whyidle.testing import recorded_job
from whyidle.testing.builder import ms

LOOP = "/job/train.py(20): <module>"
ACT = f"/job/train.py(43): act;{LOOP}"
TORCH = f"/lib/python3.11/site-packages/torch/nn/modules/linear.py(5): forward;{LOOP}"
URLOPEN = f"/lib/python3.11/urllib/request.py(216): urlopen;/job/train.py(30): report;{LOOP}"
SOCKET = f"/lib/python3.11/socket.py(706): readinto;{URLOPEN}"
ENCODE = f"/lib/python3.11/http/client.py(1256): putheader;{URLOPEN}"
ONE_THREAD = {"num_threads": 1}


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """A look each millisecond, most of which are left out."""
    monkeypatch.setattr(recorded_job, "LOOK_NS", ms(1))
    monkeypatch.setattr(recorded_job, "HELD_US", 600)


def shares(*phases, steps=1_000, **facts):
    """A few ms of each phase in turn, of which every interval between looks holds some."""
    job = recorded_job.RecordedJob(**{"switches": ONE_THREAD, **facts})
    for _ in range(steps):
        for look, stack, length in phases:
            getattr(job, look)(stack, ms(length))
        with job.call("Optimizer.step#SGD.step"), job.call("whyidle::optimizer", HostKind.OP):
            job.work(TORCH, ms(1))
    kept = np.random.default_rng(0).random(len(job.samples)) < 1 / 20
    job.samples = [look for look, keep in zip(job.samples, kept, strict=True) if keep]
    return Facts(job.timeline()).reasons


SLEEPS = ("sleep_locked", ACT, 4), ("work", TORCH, 4)


def test_short_sleeps_under_the_lock_are_told_by_the_sum():
    found = shares(*SLEEPS)
    assert found["locked"] == pytest.approx(4 / 9, abs=0.05)
    assert found["python"] + found["blocked"] < 0.02


def test_python_as_short_stays_python():
    found = shares(("python", ACT, 4), ("work", TORCH, 4))
    assert found["python"] == pytest.approx(4 / 9, abs=0.05)
    assert found["locked"] == 0.0


def test_python_beside_sleeps_that_a_free_lock_explains_stays_python():
    found = shares(("python", ACT, 3), ("wait", SOCKET, 3), ("work", TORCH, 3))
    assert (found["locked"], found["python"]) == (0.0, pytest.approx(0.3, abs=0.05))
    assert found["blocked"] == pytest.approx(0.3, abs=0.05)


def test_operators_that_may_sleep_explain_it_as_well():
    """With several threads they wait for each other; with other ranks, for these."""
    assert shares(*SLEEPS, switches={"num_threads": 4})["locked"] < 0.02


def test_an_operator_of_one_process_is_no_call_that_waits():
    """Every interval between looks holds a sleep, also those of the looks at operators."""
    found = shares(("wait", ACT, 6), ("work", TORCH, 3))
    assert found["blocked"] == pytest.approx(0.6, abs=0.05)
    several = shares(("wait", ACT, 6), ("work", TORCH, 3), switches={"num_threads": 4})
    assert several["blocked"] == pytest.approx(0.6, abs=0.05)
    ranks = shares(("wait", ACT, 6), ("work", TORCH, 3), world_size=2)
    assert ranks["blocked"] > 0.8


OPERATOR = f"/job/train.py(44): act;{LOOP}"


def test_a_thread_that_was_awake_did_not_wait_there():
    """Operators called from the job's own lines: only the kernel tells them from a sleep."""
    several = {"switches": {"num_threads": 4}}
    untold = shares(("wait", ACT, 6), ("work", OPERATOR, 3), **several)
    assert untold["blocked"] > 0.8
    told = shares(("wait", ACT, 6), ("work_told", OPERATOR, 3), **several)
    assert told["blocked"] == pytest.approx(0.6, abs=0.05)


def test_python_inside_a_call_that_waits_goes_with_it():
    found = shares(("wait", SOCKET, 4), ("python", ENCODE, 2), ("work", TORCH, 3))
    assert (found["blocked"], found["python"]) == (pytest.approx(0.6, abs=0.05), 0.0)


def test_a_call_that_mostly_computes_is_python():
    found = shares(("wait", SOCKET, 2), ("python", ENCODE, 4), ("work", TORCH, 3))
    assert found["python"] == pytest.approx(0.4, abs=0.05)


@pytest.mark.parametrize("folder", ["/job", "/home/me/torch"])
def test_a_library_s_call_may_wait_in_a_function_of_the_user_s(folder):
    log = f"/lib/python3.11/site-packages/tracker/client.py(9): log;{LOOP}"
    wait = f"/lib/python3.11/socket.py(706): readinto;{folder}/hooks.py(3): post;{log}"
    encode = f"/lib/python3.11/site-packages/tracker/client.py(20): encode;{log}"
    found = shares(("wait", wait, 4), ("python", encode, 2), ("work", TORCH, 3))
    assert (found["blocked"], found["python"]) == (pytest.approx(0.6, abs=0.05), 0.0)


def test_python_of_a_script_whose_folder_is_called_as_a_decoder_is():
    act = "/home/me/av/train.py(43): act;/home/me/av/train.py(50): <module>"
    found = shares(("python", act, 4), ("work", TORCH, 4))
    assert (found["python"], found["preprocess"]) == (pytest.approx(4 / 9, abs=0.05), 0.0)


def test_operators_of_a_script_whose_folder_is_called_as_numpy_is():
    act = "/home/me/numpy/train.py(43): act;/home/me/numpy/train.py(50): <module>"
    assert shares(("work", act, 4), ("work", TORCH, 4))["python"] < 0.02


def test_a_trainer_of_a_library_is_no_call_that_waits():
    fit = "/lib/python3.11/site-packages/lightning/trainer.py(9): fit;/job/train.py(5): <module>"
    found = shares(
        ("wait", f"/lib/python3.11/socket.py(706): readinto;{fit}", 5),
        ("python", f"/lib/python3.11/json/encoder.py(2): encode;{fit}", 2),
        ("work", f"/lib/python3.11/site-packages/torch/nn/functional.py(5): relu;{fit}", 1),
    )
    assert found["python"] == pytest.approx(2 / 9, abs=0.05)


@pytest.mark.parametrize(
    ("device", "switches", "world", "expected"),
    [
        ("cpu", ONE_THREAD, None, True),
        ("cpu", ONE_THREAD, 1, True),
        ("cpu", ONE_THREAD, 2, False),
        ("cuda", ONE_THREAD, None, False),
        ("cpu", {}, None, False),
        ("cpu", {"num_threads": 8}, None, False),
    ],
)
def test_whose_operators_never_sleep(device, switches, world, expected):
    process = ProcessFacts(device=device, switches=Switches(**switches))
    timeline = replace(probe.blank_timeline(Path()), process=process, world_size=world)
    assert runs_operators_alone(timeline) is expected
