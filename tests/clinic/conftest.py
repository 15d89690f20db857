"""What every test of the clinic begins with."""

import re

import pytest
from sheets import sheet

import clinic.launch
from clinic import warmed
from clinic.card import cases

SHEET = sheet(
    workload="job",
    before="[budget]\nwatch_s = 1\narm_s = 1\nlimit_s = 5",
    habit='sick = { rest = 3 }\ncured = { rest = 1 }\nfix = "rest less"',
)
JOB = """
import argparse, json, os, sys, time
p = argparse.ArgumentParser()
for name in ("rest", "seconds"):
    p.add_argument("--" + name, type=float)
p.add_argument("--seed"), p.add_argument("--times")
a = p.parse_args()
begin = time.perf_counter()
if os.environ.get("FALLS"):
    sys.exit("fell over")
marks = [begin + a.rest * i for i in range(1, 41)]
json.dump({"begin": begin, "marks": marks, "samples": 3}, open(a.times, "w"))
"""


@pytest.fixture(autouse=True)
def nobody_asked_to_stop():
    """A test that was stopped leaves the clinic so, as Ctrl-C does; the next one is another run."""
    clinic.launch._stopping.clear()


@pytest.fixture(scope="module", autouse=True)
def light(tmp_path_factory):
    """The script of interpreters that are warm at once: of all that a clinic's import they do with
    numpy. A job that fails or hangs ends one, and PyTorch takes seconds."""
    path = tmp_path_factory.mktemp("light") / "warm.py"
    text = warmed.SCRIPT.read_text()
    path.write_text(re.sub(r"PRELOADED = \(.*\)", 'PRELOADED = ("numpy",)', text))
    warmed.close()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(warmed, "SCRIPT", path)
        yield path
        warmed.close()


@pytest.fixture
def case(tmp_path, monkeypatch):
    (tmp_path / "cards").mkdir()
    (tmp_path / "cards" / "007.toml").write_text(SHEET)
    (tmp_path / "job.py").write_text(JOB)
    monkeypatch.setattr("clinic.launch.WORKLOADS", tmp_path)
    monkeypatch.setattr("clinic.outcome.WORKLOADS", tmp_path)
    (one,) = cases(folder=tmp_path / "cards")
    return one
