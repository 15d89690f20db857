"""Seeds that the system would give, in the processes of a trial."""

import json
import os
import random
import subprocess
import sys

import pytest

from whyidle.probe.trial import seeding
from whyidle.record.launcher import BOOT

numpy = pytest.importorskip("numpy")

JOB = """
import json, multiprocessing, os, random, sys, tempfile
import numpy as np

early = [np.random.rand(), random.random(), np.random.default_rng().random()]


def draw(*_):
    return [
        random.random(), random.Random().random(), np.random.default_rng().random(),
        np.random.RandomState().rand(), np.random.Generator(np.random.Philox()).random(),
    ]


def child(queue):
    queue.put(draw())


def worker(way):
    context = multiprocessing.get_context(way)
    queue = context.SimpleQueue()
    process = context.Process(target=child, args=(queue,), name="of the same name")
    process.start()
    found = queue.get()
    process.join()
    return found


def forked():
    into, out = os.pipe()
    if not os.fork():
        os.write(out, json.dumps(draw()).encode())
        os._exit(0)
    os.wait()
    return json.loads(os.read(into, 10_000))


if __name__ == "__main__":
    if "early" in sys.argv:
        print(json.dumps(early))
        sys.exit()
    random.seed()
    np.random.seed()
    told = {"early": early, "drawn": [draw(), draw(), [random.random(), np.random.rand()]]}
    told["workers"] = [worker(way) for way in ("fork", "fork", "spawn", "spawn")]
    told["forked"] = [forked(), forked()]
    random.seed(5), np.random.seed(5)
    own = [np.random.default_rng(5).random(), np.random.RandomState(5).rand()]
    told["own"] = [random.random(), np.random.rand(), random.Random(5).random(), *own]
    told["name"] = tempfile.NamedTemporaryFile().name
    print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """``job(seed, *words, **environment)`` runs one."""
    folder = tmp_path_factory.mktemp("job")
    script, recording = folder / "job.py", folder / "recording"
    recording.mkdir()

    def run(seed=0, *words, text=JOB, **more):
        script.write_text(text)
        own = {"WHYIDLE_RUN": str(recording), "PYTHONPATH": str(BOOT)}
        if seed is not None:
            own["WHYIDLE_TRIAL"] = json.dumps({"seed": seed})
        environment = {**os.environ, **own, **more}
        told = subprocess.run(
            [sys.executable, str(script), *words],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        assert not told.returncode, told.stderr
        assert not list(recording.glob("*.faults"))
        return json.loads(told.stdout)

    return run


def numbers(told):
    """All that nobody seeds."""
    return [one for key in ("early", "drawn", "workers", "forked") for one in told[key]]


@pytest.fixture(scope="module")
def twice(job):
    """Two with the same seed."""
    return job(), job()


def test_arms_draw_the_same_and_with_another_seed_others(job, twice):
    (first, again), other = twice, job(1)
    assert numbers(first) == numbers(again)
    flat = str(numbers(other))
    assert not [one for row in numbers(first)[3:] for one in row if str(one) in flat]
    assert first["own"] == other["own"]  # what the script seeds is its own


def test_processes_are_as_different_from_each_other_as_they_would_be(job, twice):
    told, _ = twice
    drawn = [one for key in ("drawn", "workers", "forked") for row in told[key] for one in row]
    assert len(set(drawn)) == len(drawn)
    ranks = [job(0, "early", RANK=str(rank)) for rank in (0, 1)]
    assert not {*ranks[0]} & {*ranks[1]}
    assert not {*job(0, "early", "--rank=1")} & {*told["early"]}


def test_names_of_files_differ_from_arm_to_arm(twice):
    assert twice[0]["name"] != twice[1]["name"]


def test_a_run_that_is_only_watched_draws_what_it_would(job):
    first, again = numbers(job(None)), numbers(job(None))
    assert not [one for one in first if one in again]


def test_the_seeds_of_pytorch_are_as_repeatable(job):
    pytest.importorskip("torch")
    text = "import torch\nprint([torch.seed(), torch.seed(), torch.rand(1).item()])"
    first, again, other = (job(seed, text=text) for seed in (0, 0, 1))
    assert first == again != other
    assert first[0] != first[1]


def test_a_fault_of_ours_leaves_it_to_the_system_and_is_told_once():
    told = []
    seeds = seeding.SeedSequence.__new__(seeding.SeedSequence)
    seeds.failed, seeds.complain = False, told.append
    assert 0 <= seeds.next_bits(64) < 1 << 64
    assert seeds.next_bits(128) != seeds.next_bits(128)
    assert len(told) == 1
    assert isinstance(told[0], AttributeError)


def test_here_nothing_is_installed():
    assert random.Random.seed.__module__ == "random"
