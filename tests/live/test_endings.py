"""However a process ends: our thread is gone before its interpreter is, and nobody notices."""

import json
import sys

import pytest

pytest.importorskip("torch")

pytestmark = pytest.mark.live

HEAD = """
import atexit, json, os, signal, sys, time

def note(name):
    threads = [os.path.basename(f.f_code.co_filename) for f in sys._current_frames().values()]
    with open("seen.jsonl", "a") as file:
        file.write(json.dumps([name, threads.count("sampler.py"), time.perf_counter()]))
        file.write(chr(10))

atexit.register(note, "after")  # registered before the framework is imported: runs behind ours
import torch
torch.manual_seed(0)
torch.set_num_threads(1)
atexit.register(note, "before")

def train(steps=20, data=None):
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for x in data or [torch.ones(2, 4)] * steps:
        model(x).mean().backward()
        optimizer.step()
        time.sleep(0.06)  # long enough for something to be written
    print(model.bias.item(), flush=True)
"""

ENDINGS = {
    "returns": "train()",
    "never trains": "print('done')",
    "sys.exit": "train()\nsys.exit(3)",
    "raises": "train()\nraise ValueError('its own')",
    "os._exit": "train()\nos._exit(4)",
    "killed": "train()\nos.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(60)",
    "told to stop": (
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\n"
        "train()\nos.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(60)"
    ),
    "interrupted": "train()\nos.kill(os.getpid(), signal.SIGINT)\ntime.sleep(60)",
    "forks": (
        "train()\nchild = os.fork()\nif not child:\n    train()\n    sys.exit(6)\n"
        "print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))"
    ),
}
DIE = {"os._exit", "killed"}
"""no Python runs any more once they have begun"""
MOST_S = 0.1
"""what our part of an ending takes at most on a busy machine; a few ms on an idle one"""


def seen(folder):
    path = folder / "seen.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.parametrize("name", ENDINGS)
def test_the_thread_is_gone_and_nobody_notices(watching, name):
    script = watching.folder / "train.py"
    script.write_text(HEAD + ENDINGS[name])
    alone = watching.alone(sys.executable, script)
    before = seen(watching.folder)
    (watching.folder / "seen.jsonl").unlink(missing_ok=True)
    watched = watching.run(sys.executable, script)
    after = seen(watching.folder)
    status = alone.returncode if alone.returncode >= 0 else 128 - alone.returncode
    assert (watched.returncode, watched.stdout) == (status, alone.stdout)
    assert watched.stderr.startswith(alone.stderr)
    assert [row[0] for row in after] == [row[0] for row in before]
    assert name in DIE or after
    last = {row[0]: row for row in after}
    if last:
        assert (last["before"][1], last["after"][1]) == (1, 0)
        assert last["after"][2] - last["before"][2] < MOST_S
    if name != "never trains":
        assert all(found["steps"]["count"] >= 3 for found in watching.diagnoses())


WORKER = """
import multiprocessing.util
def begin(_):
    multiprocessing.util.Finalize(None, note, args=("worker",), exitpriority=0)
if __name__ == "__main__":
    data = torch.ones(24, 4)
    loader = torch.utils.data.DataLoader(
        data, batch_size=2, num_workers=1, worker_init_fn=begin, multiprocessing_context="WAY"
    )
    train(data=loader)
"""


@pytest.mark.parametrize("way", ["fork", "spawn"])
def test_the_thread_of_a_loader_worker_is_gone_as_well(watching, way):
    script = watching.folder / "train.py"
    script.write_text(HEAD + WORKER.replace("WAY", way))
    done = watching.run(sys.executable, script)
    assert (done.returncode, "Traceback" in done.stderr) == (0, False), done.stderr
    assert [row[1] for row in seen(watching.folder) if row[0] == "worker"] == [0]
    assert list(watching.recording().glob("*.batches"))


IN_TORCH = """
import gc
train(5)
(loop,) = [one for one in gc.get_objects() if type(one).__name__ == "Events"]
begun = []

def chore():
    begun.append(1)
    for _ in range(20_000):
        torch.ones(64).add(1)

loop.sampler.chores = (chore,)
while not begun:
    time.sleep(0.001)
"""


def test_an_interpreter_never_ends_while_our_thread_is_in_c_code(watching):
    script = watching.folder / "train.py"
    script.write_text(HEAD + IN_TORCH)  # a thread that is killed in there aborts the process
    done = watching.run(sys.executable, script)
    assert done.returncode == 0, done.stderr
    assert "terminate called" not in done.stderr
