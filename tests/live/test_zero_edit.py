"""A dozen scripts in different styles are watched unmodified and compute, print and return what
they do without us."""

import sys

import pytest

torch = pytest.importorskip("torch")
OLD = not hasattr(torch.amp, "GradScaler")  # PyTorch 2.2

TORCHRUN = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
UNSEEN = {"functional.py"}
"""neither an optimizer of PyTorch's nor a backward pass in it"""

STEPS = {
    "plain.py": 20,
    "trainer.py": 20,
    "gan.py": 20,  # two optimizers that take turns make one step
    "lbfgs.py": 12,  # each calls its closure several times
    "accumulation.py": 10,  # of four micro-batches
    "loaders.py": 12,
    "compiled.py": 15 if OLD else 12,  # it took its optimizers' hooks away: backward passes
    "spawned.py": 6,
    "chars.py": 30,
    "own_optimizer.py": 15,
}
"""optimizer steps of each script, warm-up included"""
JOBS = {"jobs.sh": 2}
"""separate jobs of one command: each has a diagnosis of its own"""
LIVES = sorted([5 + 2 + 1 + 3, 2, 2, 2, 2, 5 + 2 + 1 + 3, 2, 2, 2])
"""steps of every process in living.py's two lives: nearly all leave by os._exit or os.execv"""


def command_for(script):
    if script.suffix == ".sh":
        return ["sh", script, "--lr", "1"]
    if script.stem == "ddp":
        return [sys.executable, *TORCHRUN, script]
    return [sys.executable, script]


TRIES = 3
"""of ranks over gloo by themselves, some of which fail when one leaves before the others"""


@pytest.mark.parametrize(
    "name",
    [
        "plain.py",
        "trainer.py",
        "functional.py",
        "gan.py",
        "lbfgs.py",
        "accumulation.py",
        "loaders.py",
        "compiled.py",
        "ddp.py",
        "spawned.py",
        "jobs.sh",
        "chars.py",
        "own_optimizer.py",
        "living.py",
        "failing.py",
    ],
)
def test_the_same_with_and_without(name, watching, scripts):
    if OLD and name == "accumulation.py":
        pytest.skip("this PyTorch has no torch.amp.GradScaler, which the script uses")
    command = command_for(scripts / name)
    alone = watching.start(command)  # both at once, unless they might pick the same free port
    if name == "ddp.py":
        for _ in range(TRIES):
            if alone.wait(timeout=120) == 0:
                break
            alone = watching.start(command)
    watched = watching.run(*command)
    out, err = alone.communicate(timeout=120)
    assert watched.stdout == out
    assert out
    assert watched.returncode == alone.returncode
    told = watched.stderr.splitlines(keepends=True)
    if name not in ("ddp.py", "compiled.py"):  # PyTorch's own warnings carry times
        assert "".join(told[: len(err.splitlines())]) == err
    assert watched.stderr.count("Traceback") == err.count("Traceback")
    if name not in UNSEEN:
        found = watching.diagnoses()
        assert len(found) >= JOBS.get(name, 1)
        for diagnosis in found:
            steps = diagnosis["steps"]
            assert steps["count"] >= (1 if name == "living.py" else 2)  # of two one may be warm-up
            assert name not in STEPS or steps["count"] + steps["warmup"] == STEPS[name]
            assert name != "ddp.py" or diagnosis["run"]["ranks"] == 2
            assert not [note for note in diagnosis["coverage"]["notes"] if "failed" in note]
        if name == "living.py":
            each = [one["steps"]["count"] + one["steps"]["warmup"] for one in found]
            assert sorted(each) == LIVES
            assert 1 <= watched.stderr.count("\n  job  ") <= 3  # the others have a line each
            assert "jobs more\n" in watched.stderr
