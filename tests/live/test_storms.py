"""A job that starts hundreds of processes and threads has as many files, threads and children
under watch as without, plus what our own thread holds; and nothing is left behind."""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("torch")

pytestmark = [
    pytest.mark.live,  # long, not timed
    pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="counts by /proc"),
]

STORM = """
import json, multiprocessing, os, subprocess, sys, threading

def twice(x):
    return 2 * x

def counted():
    held = {entry.name: os.readlink(entry.path) for entry in os.scandir("/proc/self/fd")
            if os.path.lexists(entry.path)}
    sockets = sum(target.startswith("socket:") for target in held.values())
    return [len(held), len(os.listdir("/proc/self/task")), sockets]

def storm(rounds):
    for _ in range(rounds):
        subprocess.run([sys.executable, "-S", "-c", "pass"] if _ % 10 == 0 else ["true"])
        thread = threading.Thread(target=train, args=(1,))
        thread.start()
        thread.join()
        child = os.fork()
        if not child:
            os._exit(0)
        os.waitpid(child, 0)

if __name__ == "__main__":
    train(30)
    for method in ("fork", "spawn"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map(twice, range(8)) == [2 * x for x in range(8)]
            pool.close()
            pool.join()
    storm(20)
    before = counted()
    storm(ROUNDS)
    train(30)
    after = counted()
    print(json.dumps([before, after, threading.active_count()]))
    print(model.bias.item())
"""


def test_a_storm_of_processes_and_threads_leaves_nothing(watching):
    scratch = watching.folder / "scratch"
    scratch.mkdir()
    path = watching.small(STORM.replace("ROUNDS", os.environ.get("WHYIDLE_ROUNDS", "50")))
    env = {"TMPDIR": str(scratch)}
    alone = watching.alone(sys.executable, path, env=env)
    before = sorted(scratch.iterdir())
    watched = watching.run(sys.executable, path, env=env)
    assert watched.returncode == 0, watched.stderr
    (first, last, threads), loss = (json.loads(line) for line in watched.stdout.splitlines())
    (_, lone_last, lone_threads), lone_loss = map(json.loads, alone.stdout.splitlines())
    assert (loss, threads) == (lone_loss, lone_threads)
    # files: the clocks of the two threads, and one that is being written at times
    assert [now - then for now, then in zip(last, lone_last, strict=True)][1:] == [1, 0]
    assert 0 <= last[0] - lone_last[0] <= 3
    assert abs(last[0] - first[0]) <= 1
    assert last[1:] == first[1:]
    assert sorted(scratch.iterdir()) == before  # PyTorch keeps a folder there itself
    assert not list(watching.recording().glob("*~"))
    (diagnosis,) = watching.diagnoses()
    assert diagnosis["steps"]["count"] + diagnosis["steps"]["warmup"] >= 60


def held(pid):
    """Open files, threads, and children of a process."""
    tasks = list(Path(f"/proc/{pid}/task").iterdir())
    children = [child for task in tasks for child in (task / "children").read_text().split()]
    return len(list(Path(f"/proc/{pid}/fd").iterdir())), len(tasks), len(children)


def test_our_own_process_grows_with_no_storm(watching):
    text = STORM.replace("ROUNDS", "60").replace(
        "    storm(20)\n", "    storm(20)\n    print('go', flush=True)\n    sys.stdin.readline()\n"
    )
    text = text.replace(
        "    train(30)\n    after",
        "    print('done', flush=True)\n    sys.stdin.readline()\n    after",
    )
    path = watching.small(text)
    with watching.start(watching.words(path), stdin=-1) as child:
        counts = []
        for word in ("go\n", "done\n"):
            assert child.stdout.readline() == word
            time.sleep(1.2)  # what the monitor opens for a process that is gone, it lets go
            counts.append(held(child.pid))
            child.stdin.write("\n")
            child.stdin.flush()
        child.communicate(timeout=120)
    (files, threads, children), (files_after, threads_after, children_after) = counts
    assert (threads, children) == (threads_after, children_after)
    assert files_after <= files + 1


TRAINS = """
import os, time
print(os.getpid(), "begun", flush=True)
for step in range(100000):
    train(1)
    time.sleep(0.002)
"""


@pytest.mark.parametrize(
    "wait_s",
    [
        round(random.Random(turn).uniform(0.6, 2.5), 2)
        for turn in range(int(os.environ.get("WHYIDLE_KILLS", "3")))
    ],
)
def test_killed_at_any_moment_the_evidence_until_then_is_diagnosed(wait_s, watching):
    path = watching.small(TRAINS)
    with watching.start(watching.words(path)) as child:
        pid, begun = child.stdout.readline().split()
        assert begun == "begun"
        time.sleep(wait_s)
        os.kill(int(pid), signal.SIGKILL)
        _, told = child.communicate(timeout=60)
    assert child.returncode == 128 + signal.SIGKILL, told
    steps = watching.diagnosis()["steps"]
    assert steps["detected_by"] == "optimizer", told
    assert steps["count"] >= 2
    assert "Traceback" not in told
