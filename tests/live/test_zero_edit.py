"""A dozen scripts in different styles are watched unmodified and compute, print and return what
they do without us."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
OLD = not hasattr(torch.amp, "GradScaler")  # PyTorch 2.2

TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
UNSEEN = {"functional.py"}
"""neither an optimizer of PyTorch's nor a backward pass in it"""

STEPS = {
    "jobs.sh": 20,  # each; two optimizers that take turns make one step
    "lbfgs.py": 12,  # each calls its closure several times
    "accumulation.py": 10,  # of four micro-batches
    "loaders.py": 12,
    "compiled.py": 15 if OLD else 12,  # it took its optimizers' hooks away: backward passes
    "spawned.py": 6,
    "chars.py": 30,
}
"""optimizer steps of each script, warm-up included"""
JOBS = {"jobs.sh": 2}  # gan.py and trainer.py
"""separate jobs of one command: each has a diagnosis of its own"""
LIVES = sorted([5 + 2 + 1 + 3, 2, 2, 2, 2, 5 + 2 + 1 + 3, 2, 2, 2])
"""steps of every process in living.py's two lives: nearly all leave by os._exit or os.execv"""


def command_for(script):
    if script.suffix == ".sh":
        return ["sh", script, "--lr", "1"]
    if script.stem == "ddp":
        return [sys.executable, *TORCHRUN, script]
    return [sys.executable, script]


QUIET = {"functional.py", "lbfgs.py", "accumulation.py", "loaders.py", "chars.py"}
"""they write nothing to their standard error, and need nothing beside them"""
TRIES = 3
"""of ranks over gloo, with and without us: of PyTorch 2.13 by itself one in twelve is aborted when
it leaves ("terminate called without an active exception")"""


def side_by_side(watching, command):
    """The command alone and watched, both at once."""
    if Path(command[-1]).name in QUIET:
        alone = watching.warm(command[-1])
        return watching.run(*command), alone
    with watching.start(command) as alone:
        watched = watching.run(*command)
        out, err = alone.communicate(timeout=120)
    return watched, subprocess.CompletedProcess(command, alone.returncode, out, err)


def in_turn(watching, command):
    """The same for ranks, which might pick the same free port: each until it ends well."""
    for _ in range(TRIES):
        alone = watching.alone(*command)
        if alone.returncode == 0:
            break
    for _ in range(TRIES):
        shutil.rmtree(watching.store, ignore_errors=True)
        watched = watching.run(*command)
        if watched.returncode == 0:
            break
    return watched, alone


@pytest.mark.parametrize(
    "name",
    [
        "functional.py",
        "lbfgs.py",
        "accumulation.py",
        "loaders.py",
        "compiled.py",
        pytest.param("ddp.py", marks=pytest.mark.services),
        "spawned.py",
        "jobs.sh",
        "chars.py",
        "living.py",
        "failing.py",
    ],
)
def test_the_same_with_and_without(name, watching, scripts):
    if OLD and name == "accumulation.py":
        pytest.skip("this PyTorch has no torch.amp.GradScaler, which the script uses")
    command = command_for(scripts / name)
    watched, alone = (in_turn if name == "ddp.py" else side_by_side)(watching, command)
    out, err = alone.stdout, alone.stderr
    assert watched.stdout == out
    assert out
    assert watched.returncode == alone.returncode
    told = watched.stderr.splitlines(keepends=True)
    if name not in ("ddp.py", "compiled.py"):  # PyTorch's own warnings carry times
        assert "".join(told[: len(err.splitlines())]) == err
    assert watched.stderr.count("Traceback") == err.count("Traceback")
    if name not in UNSEEN:
        found = watching.diagnoses()
        assert name == "living.py" or len(found) == JOBS.get(name, 1)
        assert len({diagnosis["run"]["id"] for diagnosis in found}) == len(found) >= 1
        for diagnosis in found:
            steps = diagnosis["steps"]
            assert steps["count"] >= (1 if name == "living.py" else 2)  # of two one may be warm-up
            assert name not in STEPS or steps["count"] + steps["warmup"] == STEPS[name]
            assert diagnosis["run"]["ranks"] == (2 if name == "ddp.py" else 1)
            assert not [note for note in diagnosis["coverage"]["notes"] if "failed" in note]
        if name == "living.py":
            each = [one["steps"]["count"] + one["steps"]["warmup"] for one in found]
            assert sorted(each) == LIVES
            assert 1 <= watched.stderr.count("\n  job ") <= 3  # the others have a line each
            assert "more jobs\n" in watched.stderr
