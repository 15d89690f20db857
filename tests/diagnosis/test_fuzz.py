"""Damaged recordings, all the way to the diagnosis: an answer or a clear error, never a crash."""

import json
import random

import pytest

from imagined_jobs import SICK
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.errors import WhyidleError
from whyidle.readers import kineto
from whyidle.testing import contracts

MUTATIONS = 6


def damage(events: list[dict], chance: random.Random) -> list[dict]:
    """Some of: drop, repeat, shift, stretch, reorder, rename, retype."""
    damaged = []
    keep = chance.uniform(0.3, 1.0)
    for event in events:
        if chance.random() > keep:
            continue
        changed = dict(event)
        roll = chance.random()
        if roll < 0.03:
            changed["ts"] = changed["ts"] + chance.uniform(-1e5, 1e5)
        elif roll < 0.05:
            changed["dur"] = chance.choice([0, -5, 1e9, 1e18, None, "12"])
        elif roll < 0.07:
            changed["name"] = chance.choice(["", "ProfilerStep#x", "cudaStreamSynchronize", 7])
        elif roll < 0.09:
            changed["cat"] = chance.choice(["kernel", "cpu_op", "gpu_memcpy", "cuda_runtime", ""])
        elif roll < 0.10:
            changed["tid"] = chance.choice(["stream 7", -1, 10**12, None])
        elif roll < 0.11:
            changed["args"] = chance.choice([None, [], {"correlation": "x", "bytes": -1}])
        damaged += [changed] * (2 if chance.random() < 0.02 else 1)
    if chance.random() < 0.3:
        chance.shuffle(damaged)
    return damaged


@pytest.mark.parametrize("name", list(SICK))
def test_damaged_recordings(name, tmp_path):
    document = SICK[name]().document()
    chance = random.Random(name)
    for number in range(MUTATIONS):
        path = tmp_path / f"{number}.json"
        events = damage(document["traceEvents"], chance)
        path.write_text(json.dumps({**document, "traceEvents": events}))
        try:
            diagnosis = diagnose_job([kineto.load(path)])
        except WhyidleError:
            continue
        contracts.check_bounds(diagnosis)
        contracts.check_round_trip(diagnosis)


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
def test_cut_recordings(share, tmp_path):
    text = json.dumps(SICK["starved_by_loader"]().document())
    path = tmp_path / "cut.json"
    path.write_text(text[: int(len(text) * share)])
    diagnosis = diagnose_job([kineto.load(path)])
    contracts.check_bounds(diagnosis)
    assert any("incomplete" in note for note in diagnosis.coverage.notes)
