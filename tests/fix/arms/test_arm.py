"""One arm, with real processes."""

import json
import os
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from own_sgd import OWN_SGD
from unguarded import Open

from whyidle.fix.arms.arm import ArmRequest, arm_environment, run_arm
from whyidle.fix.loop.fix_document import peak_memory
from whyidle.model.diagnosis import Edit

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.real_processes("arms are ended at seconds of the clock")

TRAIN = f"""
import sys, time
{OWN_SGD}
torch.manual_seed(0)
model = torch.nn.Linear(4, 1)
optimizer = SGD(model.parameters(), lr=0.1)
for step in range(int(sys.argv[1])):
    loss = model(torch.ones(2, 4)).square().mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.002)
print("through")
"""


@pytest.fixture
def train(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(TRAIN)
    return path


def ran(train, steps, asked):
    words = [sys.executable, str(train), str(steps)]
    return run_arm(words, asked, train.parent / f"arm-{steps}", Open())


def test_it_ends_when_it_has_run_long_enough(train):
    asked = ArmRequest(steps=12, seconds=0.4)
    found = ran(train, 100_000, asked)
    assert found.ending == "stopped"
    assert found.is_comparable
    assert len(found.report.marks) >= 12
    assert 0.4e9 <= found.report.marks[-1] - found.report.marks[0] < 2e9
    assert len(found.report.losses) == len(found.report.marks)
    host, device = peak_memory([found])
    assert host > 10 * 2**20  # torch alone takes more
    assert device is None
    assert not list(found.recording.glob("*.bursts.json"))


def test_one_that_is_looked_at_goes_on_until_its_operators_are_recorded(train):
    """Asked for two seconds, it would otherwise end before the recorder comes to it."""
    found = ran(train, 100_000, ArmRequest(steps=12, seconds=2.0, profile=True))
    assert found.ending == "stopped"
    (told,) = found.recording.glob("*.bursts.json")
    assert [one["state"] for one in json.loads(told.read_text())["bursts"]] == ["recorded"]


def test_a_job_that_ends_by_itself_tells_all_it_did_and_when_code_was_compiled(train):
    """Of a model that is compiled, and after twenty steps evaluated for the first time."""
    how = "model = torch.compile(torch.nn.Sequential(model), backend='eager')"
    compiled = TRAIN.replace("optimizer =", f"{how}\noptimizer =").replace(
        "    time.sleep(0.002)",
        "    if step == 19:\n"
        "        with torch.no_grad(): model.eval()(torch.ones(2, 4)); model.train()",
    )
    train.write_text(compiled)
    found = ran(train, 40, ArmRequest(steps=1000))
    assert (found.ending, found.status) == ("finished", 0)
    assert len(found.report.marks) == 40
    assert "through" in found.output_end
    assert {steps for steps, _ in found.report.compiled} == {0, 20}
    assert all(ns > 0 for _, ns in found.report.compiled)


DRAWS = f"""
import numpy
chance = numpy.random.default_rng()
import random, torch
{OWN_SGD}
model = torch.nn.Linear(4, 1)
optimizer = SGD(model.parameters(), lr=0.1)
for step in range(20):
    batch = torch.from_numpy(chance.standard_normal((2, 4))).float() * random.Random().random()
    loss = model(batch).square().mean()
    loss.backward()
    optimizer.step()
"""


def test_arms_are_the_same_where_the_script_leaves_seeds_to_the_system(tmp_path):
    pytest.importorskip("numpy")
    script = tmp_path / "train.py"
    script.write_text(DRAWS)
    arms = [
        (ArmRequest(steps=1000, seed=seed), tmp_path / f"arm-{n}")
        for n, seed in enumerate((0, 0, 1))
    ]
    losses = [run_arm([sys.executable, str(script)], *arm, Open()).report.losses for arm in arms]
    assert len(losses[0]) == 20
    assert losses[0] == losses[1] != losses[2]


class Shelf(Open):
    """Takes what is written in a folder whose disk fills up once it has been looked at."""

    def __init__(self, place, monkeypatch):
        self.places = [place]
        free = iter([90, 90])  # which place is best is asked before

        def room(_):
            return SimpleNamespace(f_frsize=1, f_blocks=99, f_bavail=next(free, 9))

        monkeypatch.setattr(os, "statvfs", room)


def test_an_arm_that_leaves_too_little_room_is_ended(tmp_path, monkeypatch):
    words = [sys.executable, "-c", "import time; time.sleep(600)"]
    found = run_arm(words, ArmRequest(), tmp_path / "arm", Shelf(tmp_path, monkeypatch))
    assert (found.ending, found.is_comparable) == ("full", False)
    assert "0.0 GB left" in found.full


@pytest.mark.parametrize(
    ("text", "ending"),
    [("raise ValueError('no')", "crashed"), ("pass", "silent"), ("input_ = 1; 1/0", "crashed")],
)
def test_a_job_that_does_not_train_says_how_it_ended(tmp_path, text, ending):
    found = run_arm([sys.executable, "-c", text], ArmRequest(), tmp_path / "arm", Open())
    assert found.ending == ending
    assert not found.is_comparable


def test_a_job_that_hangs_is_ended_with_all_that_it_started(tmp_path):
    """The second one is in a session of its own, as the ranks of launchers are."""
    text = (
        "import subprocess, sys, time\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'],"
        " start_new_session=True)\n"
        "time.sleep(600)\n"
    )
    begun = time.monotonic()
    found = run_arm(
        [sys.executable, "-c", text], ArmRequest(patience_s=1.0), tmp_path / "arm", Open()
    )
    assert found.ending == "hung"
    assert time.monotonic() - begun < 30
    recording = str(found.recording)
    left = [p for p in psutil.process_iter() if _run_of(p) == recording and p.is_running()]
    assert [p for p in left if p.status() != psutil.STATUS_ZOMBIE] == []


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere nobody tells")
def test_a_shell_does_not_go_on_after_it(train):
    """Its next line may remove the machine."""
    inner, after = train.with_name("inner.sh"), train.with_name("after")
    inner.write_text(f"'{sys.executable}' '{train}' 100000\ntouch '{after}'\n")
    words = ["sh", "-c", f"bash '{inner}'; touch '{after}'; sleep 60"]
    found = run_arm(words, ArmRequest(steps=12, seconds=0.2), train.parent / "arm", Open())
    assert found.ending == "stopped"
    assert found.is_comparable
    assert not after.exists()


def _run_of(process):
    try:
        return process.environ().get("WHYIDLE_RUN")
    except (psutil.Error, OSError):
        return None


def test_knobs_of_the_environment_are_set_and_others_written_down(tmp_path):
    edits = (
        Edit(knob="env.OMP_NUM_THREADS", value="1"),
        Edit(knob="gc.freeze", value=True, was=False),
    )
    told = arm_environment(ArmRequest(edits), tmp_path)
    assert told["OMP_NUM_THREADS"] == "1"
    assert "gc.freeze" in Path(told["WHYIDLE_PLAN"]).read_text()
    assert "WHYIDLE_PLAN" not in arm_environment(ArmRequest(), tmp_path)


def test_operators_are_recorded_soon_where_it_is_looked_at_and_never_where_timed(tmp_path):
    assert arm_environment(ArmRequest(profile=True), tmp_path)["WHYIDLE_PROFILE"] == "look"
    assert arm_environment(ArmRequest(), tmp_path)["WHYIDLE_PROFILE"] == "off"
