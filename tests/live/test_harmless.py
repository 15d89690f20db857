"""Whatever fails on our side, the job never sees it, and what was seen until then is diagnosed."""

import json
import os
import random
import signal
import sys
import time

import pytest
from own_sgd import OWN_SGD

pytest.importorskip("torch")


HEAD = f"""
import os, resource, shutil, sys, threading, time
{OWN_SGD}from torch.utils.data import DataLoader
torch.manual_seed(0)
torch.set_num_threads(1)
model = torch.nn.Linear(8, 1)
optimizer = SGD(model.parameters(), lr=0.01)
losses = []

def train(steps, pause=0.002):
    for x in DataLoader(torch.randn(4 * steps, 8), batch_size=4):
        time.sleep(pause)
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
"""

EVERY_HOOK = """
import gc, inspect
probe = {name.rpartition(".")[2]: module for name, module in sys.modules.items()
         if name.startswith("_whyidle_probe.")}
loops = [thing for thing in gc.get_objects() if type(thing).__name__ == "Events"]
(loop,) = loops
train(20)

def broken(*args, **kwargs):
    raise ValueError("a planted fault")

def use_all():
    train(2, 0)
    torch.save({}, os.devnull)
    gc.collect()
    model.eval()
    model.train()
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(model(torch.ones(1, 8)).sum() * float("inf")).backward()
    scaler.step(optimizer)  # which is skipped
    scaler.update()

class Gone:  # a device each of whose calls fails
    def __getattr__(self, name):
        raise ValueError("a planted fault")

marks = probe["device_timestamps"].DeviceMarks(loop, Gone())
marks._due = 0  # the next step is measured
loop.add_listener(marks)
hooks = sorted(loop.undo)
wrapped = {"backward": lambda: torch.autograd.backward, "save": lambda: torch.save}
before = {name: get() for name, get in wrapped.items()}
recorder = loop.recorder
whole = type(recorder)

class Broken(whole):  # a recorder into which nothing can be put
    add_row = broken
    add = property(lambda self: broken, lambda self, value: None)

train(2, 0)  # only the device fails
recorder.__class__ = Broken  # every hook ends in it
loop.add = broken  # or in this
for _ in range(3):
    use_all()
recorder.__class__, loop.add = whole, recorder.short.extend
recorder.flush_records()
for name, get in wrapped.items():
    assert get() is inspect.unwrap(before[name]), name
left = [name for name in hooks if name in loop.undo]
train(20)
print("off", sorted(set(hooks) - set(left)))
print(losses[-1])
"""


def job(watching, text):
    path = watching.folder / "train.py"
    path.write_text(HEAD + text)
    return path


EVERY = {
    "backward",
    "device",
    "evaluation end",
    "gc",
    "gc.collect",
    "loader",
    "optimizer",
    "save",
    "scaler",
}
"""hooks of the loop and around it; the others (of compilers, ranks, bursts, padding, debugging)
have tests of their own"""


def test_a_fault_in_every_hook_takes_it_off_and_is_told(watching):
    done = watching.run(job(watching, EVERY_HOOK))
    assert done.returncode == 0, done.stderr
    off = done.stdout.splitlines()[0]
    for hook in EVERY:
        assert f"'{hook}'" in off
    notes = [note for note in watching.diagnosis()["coverage"]["notes"] if "planted" in note]
    assert {note.split("switched off: ")[1].split(":")[0] for note in notes} >= EVERY


def test_a_full_disk_costs_evidence_only(watching):
    text = """
train(60)
time.sleep(0.6)
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY))
train(600, 0)
time.sleep(0.6)
train(600, 0)
print(losses[-1])
"""
    done = watching.run(job(watching, text))
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    (spans,) = watching.recording().glob("*.spans")
    assert spans.stat().st_size < 60_000
    diagnosis = watching.diagnosis()
    assert diagnosis["steps"]["count"] > 20
    assert [note for note in diagnosis["coverage"]["notes"] if "writing" in note]


def test_a_disk_that_is_full_from_the_start_is_told_and_is_a_status(watching):
    text = """
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
train(600, 0)
time.sleep(0.6)
print(len(losses))
"""
    done = watching.run(job(watching, text))
    assert done.stdout == "600\n"
    assert "the recording could not be written" in done.stderr
    assert "looked like Python" not in done.stderr
    assert done.returncode == 1


def test_a_folder_that_vanishes_costs_evidence_only(watching):
    text = """
train(20)
time.sleep(0.4)
shutil.rmtree(os.environ["WHYIDLE_RUN"])
train(200)
time.sleep(0.4)
print(len(losses), threading.active_count())
"""
    done = watching.run(job(watching, text))
    assert done.returncode == 0
    assert done.stdout == "220 1\n"
    assert "Traceback" not in done.stderr
    assert "no training step was seen" in done.stderr


def test_killed_with_the_launcher_the_evidence_is_diagnosed(watching):
    path = job(watching, "print(os.getpid(), flush=True)\ntrain(100000)\n")
    with watching.start(watching.words(path), start_new_session=True) as child:
        child.stdout.readline()
        recording = watching.recording()
        until = time.monotonic() + 60
        while not list(recording.glob("*.facts.json")) and time.monotonic() < until:
            time.sleep(0.05)
        time.sleep(random.uniform(0.3, 1.2))
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate(timeout=60)
    run = recording.parent
    told = watching.alone(*watching.whyidle("report"), run.name, "--json", "-")
    assert told.returncode == 0, told.stderr
    diagnosis = json.loads(told.stdout)
    assert diagnosis["run"]["exit_status"] is None
    assert diagnosis["steps"]["count"] > 5
    for place in (run, recording):
        again = watching.alone(sys.executable, "-m", "whyidle", "explain", place, "--json", "-")
        assert again.stdout == told.stdout


COLLECTING = """
import gc, signal

class TooLateError(Exception):
    pass

def too_late(*_):
    raise TooLateError

signal.signal(signal.SIGALRM, too_late)
late = 0
for _ in range(60):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.002)
        while True:
            gc.collect(0)
    except TooLateError:
        late += 1
print(late)
"""


def test_a_signal_in_the_middle_of_a_collection_is_never_lost(watching):
    """Python drops what a callback of the collector raises, a Ctrl-C as well."""
    done = watching.run(sys.executable, job(watching, COLLECTING))
    assert done.stdout.split() == ["60"]
    assert "ignored" not in done.stderr
