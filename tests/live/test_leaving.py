"""A process that leaves by ``os._exit`` or ``os.execv`` keeps its evidence to the last step."""

import sys

import pytest

pytest.importorskip("torch")

HEAD = """
import os, pickle, sys
silently = train

def train(steps):
    silently(steps)
    print(model.bias.item(), flush=True)

train(3)
"""

LEAVING = {
    "a child's _exit": (
        "child = os.fork()\nif not child:\n    train(4)\n    os._exit(2)\n"
        "os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))",
        2,
        [3, 4],
    ),
    "execlpe": ("os.execlpe('sh', 'sh', '-c', 'exit $N', {**os.environ, 'N': '5'})", 5, [3]),
    "no such program": (
        "try:\n    os.execv('/none', ['none'])\nexcept FileNotFoundError:\n    train(5)",
        0,
        [8],
    ),
}


def counted(watching):
    each = [diagnosis["steps"] for diagnosis in watching.diagnoses()]
    return sorted(steps["count"] + steps["warmup"] for steps in each)


@pytest.mark.parametrize("name", LEAVING)
def test_the_last_step_is_kept(watching, name):
    text, status, steps = LEAVING[name]
    path = watching.small(HEAD + text)
    alone = watching.warm(path)
    watched = watching.run(sys.executable, path)
    assert (watched.returncode, watched.stdout) == (alone.returncode, alone.stdout)
    assert watched.returncode == status, watched.stderr
    assert counted(watching) == steps


BROKEN = """
(session,) = sys.modules["_whyidle_probe"]._sessions
loop = session.events
assert pickle.loads(pickle.dumps(os._exit)) is os._exit
def broken():
    raise ValueError("a planted fault")
loop.recorder.flush_records = broken
os._exit(6)
"""


def test_a_fault_of_ours_does_not_keep_it(watching):
    done = watching.run(sys.executable, watching.small(HEAD + BROKEN))
    assert done.returncode == 6
    assert "Traceback" not in done.stderr


HANGING = """
(session,) = sys.modules["_whyidle_probe"]._sessions
loop = session.events
loop.recorder._lock.acquire()  # as a write to a disk that hangs
os._exit(6)
"""


def test_a_folder_that_hangs_does_not_keep_it(watching):
    assert watching.run(sys.executable, watching.small(HEAD + HANGING)).returncode == 6


def test_steps_of_a_process_that_never_wrote_what_it_is_count(watching):
    watching.run(sys.executable, watching.small(HEAD + "train(20)\nos._exit(0)"))
    recording = watching.recording()
    (facts,) = recording.glob("*.facts.json")
    facts.unlink()
    (recording.parent / "diagnosis.json").unlink()
    told = watching.alone(*watching.whyidle("report"), recording.parent.name, "--json", "-")
    assert '"detected_by":"optimizer"' in told.stdout.replace(" ", ""), told.stderr
