"""Bursts inside real CPU jobs: what they find, what they leave, and what they must not touch."""

import json
import signal
import sys

import pytest

from whyidle.record.recording_diagnosis import read_recording

pytest.importorskip("torch")

pytestmark = pytest.mark.live

HEAD = """
import gc, os, signal, sys, threading, time
import torch
torch.manual_seed(0)
torch.set_num_threads(1)

made = []
def train(seconds=0, steps=0, layers=8, more=lambda: True, **options):
    if not made:
        model = torch.nn.Sequential(*[torch.nn.Linear(16, 16) for _ in range(layers)])
        made.extend([model, torch.optim.Adam(model.parameters(), **options)])
    model, optimizer = made
    until, done = time.monotonic() + seconds, 0
    while more() and (done < steps if steps else time.monotonic() < until):
        loss = model(torch.randn(64, 16)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        done += 1
    return done, loss.item()
"""
SAME = """
print(train(steps=12000, foreach=False)[1], torch.randn(1).item())
print(torch.autograd._profiler_enabled(), threading.active_count(),
      sorted(name for name in os.environ if "KINETO" in name or "CUPTI" in name))
"""
FORCED = """
(bursts,) = [thing for thing in gc.get_objects() if type(thing).__name__ == "Bursts"]
def force():
    train(steps=50)
    while bursts.profiler is None or bursts._result is not None:
        train(steps=50)
    bursts._begin = 0
    bursts.wanted_work = bursts.start
"""


def job(watching, text):
    path = watching.folder / "train.py"
    path.write_text(HEAD + text)
    return path


def bursts_of(watching):
    (path,) = watching.recording().glob("*.bursts.json")
    return json.loads(path.read_text())


def test_numbers_and_output_are_those_of_the_job_alone(watching):
    path = job(watching, SAME)
    alone = watching.alone(sys.executable, path)
    done = watching.run(path)
    assert done.stdout == alone.stdout
    assert "profiler_st" not in done.stderr
    assert bursts_of(watching)["bursts"][0]["state"] == "recorded"


def test_off_is_off(watching):
    words = watching.words(job(watching, SAME), options=["--profile", "off"])
    with watching.start(words) as child:
        child.communicate(timeout=120)
    assert not list(watching.recording().glob("*burst*"))


@pytest.mark.parametrize("hook", ["start", "mark", "stop", "busy"])
def test_a_fault_in_a_burst_never_reaches_the_job(watching, hook):
    text = f"""
force()
kind = type(bursts.profiler)
kept = kind.{hook}
def broken(self, *_):
    kind.{hook} = kept
    raise ValueError("a planted fault")
kind.{hook} = broken
done, _ = train(steps=300)
time.sleep(0.6)
print(done, torch.autograd._profiler_enabled(), bursts.wants_steps, bursts.closed)
"""
    done = watching.run(job(watching, FORCED + text))
    assert done.stdout == "300 False False True\n"
    assert "Traceback" not in done.stderr
    diagnosis = watching.diagnosis()
    assert [n for n in diagnosis["coverage"]["notes"] if "burst: ValueError: a planted" in n]
    assert diagnosis["steps"]["count"] > 300


KILLED = """
force()
train(steps=200)
force()
def mark(*_):
    bursts._until = 0
    time.sleep(1)
    os.kill(os.getpid(), signal.SIGKILL)
type(bursts.profiler).mark = mark
train(steps=100)
"""


def test_killed_within_a_burst_the_rest_is_diagnosed(watching):
    done = watching.run(job(watching, FORCED + KILLED))
    assert done.returncode == 128 + signal.SIGKILL
    told = bursts_of(watching)
    assert told["windows"][-1][1] == 0
    diagnosis = watching.diagnosis()
    assert diagnosis["steps"]["count"] > 200
    assert any("left out of all other figures" in note for note in diagnosis["coverage"]["notes"])


ENDED = """
force()
train(steps=10000, more=lambda: not bursts.profiler.running)
print(bursts.profiler.running)
sys.exit(3)
"""
FORKED = """
force()
train(steps=10000, more=lambda: not bursts.profiler.running)
child = os.fork()
if child == 0:
    os._exit(torch.autograd._profiler_enabled())
print(os.waitpid(child, 0)[1], torch.autograd._profiler_enabled())
"""
LATE = """
force()
train(steps=10000, more=lambda: not bursts.profiler.running)
until = time.monotonic() + 20
while bursts.profiler.running and time.monotonic() < until:
    torch.ones(3).sum()
print(bursts.profiler.running, torch.autograd._profiler_enabled())
"""
OWN = """
force()
train(steps=10000, more=lambda: not bursts.profiler.running)
with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as own:
    train(steps=5)
print(len([e for e in own.events() if e.name.startswith("Optimizer.step")]), bursts.off)
"""


@pytest.mark.parametrize(
    ("text", "status", "out", "why"),
    [
        (ENDED, 3, "True\n", "closed"),
        (FORKED, 0, "0 False\n", "a fork"),
        (LATE, 0, "False False\n", "a step took too long"),
        (OWN, 0, "5 the job uses its own profiler\n", "the job uses its own profiler"),
    ],
)
def test_a_burst_that_is_in_the_way_is_taken_down(watching, text, status, out, why):
    done = watching.run(job(watching, FORCED + text))
    assert (done.returncode, done.stdout) == (status, out), done.stderr
    assert bursts_of(watching)["bursts"][-1]["state"] == f"abandoned: {why}"
    assert not list(watching.recording().glob("*.faults"))


COMPILED = """
import torch._dynamo.utils as utils
net = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Dropout(0.1), torch.nn.Linear(16, 1))
compiled = torch.compile(net, backend="aot_eager")
made.extend([compiled, torch.optim.Adam(net.parameters())])
train(steps=60)
before = dict(utils.counters["frames"])
for bursts in [thing for thing in gc.get_objects() if type(thing).__name__ == "Bursts"]:
    while bursts.profiler is None:
        time.sleep(0.1)
    bursts.wanted_work = bursts.start
print(train(steps=60)[1], before == dict(utils.counters["frames"]))
"""


def test_nothing_is_compiled_again_for_a_burst(watching):
    path = job(watching, COMPILED)
    alone = watching.alone(sys.executable, path)
    done = watching.run(path)
    assert done.stdout == alone.stdout
    assert done.stdout.endswith("True\n")
    assert bursts_of(watching)["bursts"][0]["state"] == "recorded"


RANKS = """
torch.distributed.init_process_group("gloo")
net = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(16, 16))
made.extend([net, torch.optim.SGD(net.parameters(), lr=0.01)])
train(steps=100)
time.sleep(2)
(bursts,) = [thing for thing in gc.get_objects() if type(thing).__name__ == "Bursts"]
bursts.wanted_work = bursts.start if bursts._is_chosen_process() else None
train(steps=200)
torch.distributed.destroy_process_group()
"""


def test_one_rank_is_recorded_and_the_others_know(watching):
    path = job(watching, RANKS)
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", path]
    done = watching.run(*launch)
    assert done.returncode == 0, done.stderr
    assert len(list(watching.recording().glob("*.burst-1.json"))) == 1
    first, second = read_recording(watching.recording())
    assert (len(first.bursts), len(second.bursts)) == (1, 0)
    assert first.disturbed
    assert len(second.disturbed) == len(first.disturbed)
    notes = watching.diagnosis()["coverage"]["notes"]
    assert any(note.startswith("rank 0: profile of steps") for note in notes)
