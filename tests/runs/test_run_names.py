"""Short names of several runs."""

from __future__ import annotations

import msgspec
import pytest

from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.runs.run_table import name_runs
from whyidle.testing.demo import job

BASE = diagnose_job([job().timeline()])


def of(command: str | None, framework: str = "pytorch", source: str = "/a/b/trace.json"):
    words = command.split() if command else None
    run = msgspec.structs.replace(
        BASE.run, command=words, framework=framework, sources=[source], id="x"
    )
    return msgspec.structs.replace(BASE, run=run)


@pytest.mark.parametrize(
    ("runs", "names"),
    [
        ([of("/opt/bin/python a/one.py --lr 1"), of("python two.py")], ["one.py", "two.py"]),
        (
            [of("python t.py", "jax"), of("python t.py", "pytorch")],
            ["t.py jax", "t.py pytorch"],
        ),
        (
            [of("python t.py --lr 1 --bs 8"), of("python t.py --lr 1 --bs 16")],
            ["t.py 8", "t.py 16"],
        ),
        ([of("python -m pack.train"), of("./run.sh")], ["pack.train", "run.sh"]),
        ([of("torchrun --nproc 2 t.py"), of(None)], ["t.py", "trace.json"]),
        ([of("python t.py"), of("python t.py")], ["t.py #1", "t.py #2"]),
    ],
)
def test_runs_are_named_by_what_tells_them_apart(runs, names):
    assert name_runs(runs) == names
