"""Workers that are held still are told from workers that wait for storage."""

import json

import numpy as np
import pytest

from whyidle.analysis.sampling.interpretation import interpret_workers
from whyidle.frameworks.torch.names import VOCABULARY
from whyidle.model.loader_tables import BATCH
from whyidle.readers.probe import loader_records as _loader_records
from whyidle.readers.probe.samples import SAMPLE

MS = 1_000_000
LOOKS = 40
ENTRY = "/site-packages/torch/utils/data/_utils/worker.py(349): _worker_loop"


def read(folder):
    return interpret_workers(_loader_records.read_loading(folder, "1", 0), VOCABULARY)


def recorded(folder, *, held_ms, awake_ms, inside=True):
    """A worker that makes batches of 20 ms, one after the other, and a look at each."""
    (folder / "2.worker.json").write_text(json.dumps({"parent": 1, "worker": 0}))
    (folder / "2.stacks").write_text("/job/data.py(12): __getitem__;/lib/fetch.py(5): fetch\n")
    looks = np.zeros(LOOKS, SAMPLE)
    looks["time"] = (np.arange(LOOKS) * 20 + 5) * MS
    looks["cpu"] = np.arange(LOOKS) * awake_ms * MS
    looks["held"], looks["thread"] = held_ms * 1000, 1
    (folder / "2.samples").write_bytes(looks.tobytes())
    made = np.zeros(LOOKS if inside else 1, BATCH)
    made["start"] = np.arange(len(made)) * 20 * MS
    made["end"] = made["start"] + 19 * MS
    (folder / "2.batches").write_bytes(made.tobytes())
    return read(folder)


@pytest.mark.parametrize(
    ("held_ms", "awake_ms", "still"),
    [(8, 2, True), (0, 2, False), (8, 20, False)],
    ids=["held still", "storage", "Python"],
)
def test_asleep_while_its_lock_was_taken(tmp_path, held_ms, awake_ms, still):
    found = recorded(tmp_path, held_ms=held_ms, awake_ms=awake_ms)
    assert len(found.samples) == LOOKS
    assert (found.still > 0.9) is still
    assert still or found.still == 0.0


def test_only_looks_in_the_midst_of_a_batch_count(tmp_path):
    found = recorded(tmp_path, held_ms=8, awake_ms=2, inside=False)
    assert len(found.samples) == 1


def test_what_a_forked_worker_inherits_is_no_place_in_it(tmp_path):
    """Its parent stood in the training loop, below which nothing of the worker lies. A parent that
    was itself forked is cut off at the worker, not where the parent began."""
    inner = ("/site-packages/torch/utils/data/_utils/collate.py(9): default_collate", ENTRY)
    loop = ("/job/train.py(27): main", "lib/python3.11/multiprocessing/process.py(1): _bootstrap")
    recorded(tmp_path, held_ms=0, awake_ms=2)
    (tmp_path / "2.stacks").write_text(";".join((*inner, *loop)) + "\n")
    assert read(tmp_path).stacks == (inner[0],)


def test_no_workers(tmp_path):
    assert read(tmp_path).still == 0.0
