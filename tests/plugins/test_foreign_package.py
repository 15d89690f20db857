"""A package of somebody else, installed beside whyidle, brings plug-ins of every kind that uses
them through the command line."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from own_sgd import OWN_SGD

from whyidle.recordings.explain import MANY

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FOREIGN = Path(__file__).parent / "foreign"
STEPS = 20
PLAN = """
schema = "whyidle/plan/1"
command = ["python", "job.py"]
made = "2026-11-21T15:30:00+00:00"
whyidle = "0.2.0"

[[fix]]
fix = "shorter-naps"
consent = "none"
[fix.edits]
naps.length_ratio = {ratio}
"""
JOB = """
import sys, time
model = torch.nn.Linear(4, 4)
optimizer = SGD(model.parameters(), lr=0.1)
start = time.monotonic()
for _ in range(4):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    time.sleep(1.0)
print(time.monotonic() - start, [name for name in sys.modules if name in ("whyidle", "naptime")])
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """A folder for PYTHONPATH with the package, as an installer leaves it there."""
    folder = tmp_path_factory.mktemp("site")
    project = tomllib.loads((FOREIGN / "pyproject.toml").read_text())["project"]
    shutil.copytree(FOREIGN / "naptime", folder / "naptime")
    info = folder / f"whyidle_naptime-{project['version']}.dist-info"
    info.mkdir()
    named = f"Name: {project['name']}\nVersion: {project['version']}\n"
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\n{named}")
    groups = project["entry-points"].items()
    lines = [
        line
        for group, points in groups
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in points.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))
    return folder


@pytest.fixture
def whyidle(site, tmp_path):
    def command(*words):
        return subprocess.run(
            [sys.executable, "-m", "whyidle", *map(str, words)],
            env={**os.environ, "PYTHONPATH": str(site), "COLUMNS": "100"},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return command


@pytest.fixture
def rewrite(site):
    """Change a module of the package for the time of a test."""
    before = {}

    def change(name, old, new):
        path = site / "naptime" / f"{name}.py"
        before[path] = path.read_text()
        path.write_text(before[path].replace(old, new) if old else f"{before[path]}\n\n{new}\n")

    yield change
    for path, text in before.items():
        path.write_text(text)


@pytest.fixture
def recording(tmp_path):
    path = tmp_path / "invented.naps"
    path.write_text("naps 1\n" + "40000000 60000000\n" * STEPS)
    return path


def test_its_format_is_read_its_cause_found_its_fix_proposed_and_its_form_written(
    whyidle, recording, tmp_path
):
    ended = whyidle("explain", recording, "--json", "d.json", "--export", "haiku=-", "--no-store")
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr.splitlines() == ["wrote d.json"]
    assert ended.stdout == "starved\n  long-naps\nthe device waits\n"
    (finding, *_) = json.loads((tmp_path / "d.json").read_text())["findings"]
    assert finding["cause"] == "long-naps"
    assert finding["family"] == "naptime"
    (fix,) = finding["fixes"]
    assert fix["fix"] == "shorter-naps"
    assert fix["summary"] == "time.sleep(0.1 * seconds) where the loop sleeps"
    assert fix["edits"][0]["knob"] == "naps.length_ratio"


def test_its_recording_is_found_in_a_folder(whyidle, recording):
    ended = whyidle("explain", recording.parent, "--no-store")
    assert "The loop sleeps for 60%" in ended.stdout, ended.stderr


def test_recordings_of_many_ranks_are_read_by_it(whyidle, recording, tmp_path):
    ranks = tmp_path / "ranks"
    ranks.mkdir()
    for rank in range(MANY + 1):
        shutil.copy(recording, ranks / f"rank{rank}.naps")
    ended = whyidle("explain", ranks, "--no-store")
    assert "The loop sleeps for 60%" in ended.stdout, ended.stderr


def test_a_fault_of_its_importer_is_told_as_one_of_the_file(whyidle, recording):
    recording.write_text("naps 1\nmany\n")
    ended = whyidle("explain", recording)
    assert ended.returncode == 1
    assert "is no nap log" in ended.stderr


@pytest.mark.parametrize(
    "plugin",
    [
        ("naplog", "def load(path, **_): 1 / 0", "plug-in naptime.naplog failed to read"),
        ("haiku", "def render(_): 1 / 0", "plug-in 'haiku' failed to write"),
        ("haiku", "import nothing_of_the_kind", "plug-in 'haiku' (whyidle.exporters) of whyidle-"),
    ],
)
def test_what_is_asked_for_and_fails_is_named(whyidle, recording, rewrite, plugin):
    name, fault, said = plugin
    rewrite(name, "", fault)
    ended = whyidle("explain", recording, "--export", "haiku=-", "--no-store")
    assert ended.returncode == 1
    assert said in ended.stderr


def test_a_fault_in_its_fix_costs_the_fix_alone(whyidle, recording, rewrite, tmp_path):
    rewrite("shorter_naps", "return Proposal", "1 / 0; return Proposal")
    ended = whyidle("explain", recording, "--json", "d.json", "--no-store")
    assert ended.returncode == 0
    told = json.loads((tmp_path / "d.json").read_text())
    assert told["findings"][0]["cause"] == "long-naps"
    assert told["findings"][0]["fixes"] == []
    assert any("internal error in the fix shorter-naps" in n for n in told["coverage"]["notes"])


def test_its_cause_is_listed_and_has_a_page(whyidle):
    assert "long-naps" in whyidle("causes").stdout
    page = whyidle("causes", "long-naps").stdout
    assert "The loop calls `time.sleep`" in page
    assert "shorter-naps" in page


CONTRACTS = """
from whyidle import catalog
from whyidle.testing import contracts
from whyidle.testing.demo import job

cause = catalog.load_causes()["long-naps"]
contracts.check_declaration(cause)
contracts.check_silent(cause, [job().timeline()])
contracts.check_fix(catalog.load_fixes()["shorter-naps"], catalog.load_causes())
"""


def test_the_contract_suites_can_be_run_on_it(site):
    environment = {**os.environ, "PYTHONPATH": str(site)}
    subprocess.run([sys.executable, "-c", CONTRACTS], env=environment, check=True, timeout=300)


def test_doctor_lists_its_plug_ins(whyidle):
    told = " ".join(whyidle("doctor").stdout.split())
    assert "causes/long-naps, fixes/shorter-naps, knobs/nap-length" in told


def test_an_unknown_form_is_refused_before_the_work(whyidle, recording):
    ended = whyidle("explain", recording, "--export", "sonnet=x")
    assert ended.returncode == 2
    assert "haiku" in ended.stderr


def test_its_knob_is_applied_to_a_real_process_that_knows_nothing_of_it(whyidle, tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "job.py").write_text(OWN_SGD + JOB)
    (tmp_path / "plan.toml").write_text(PLAN.format(ratio=0.01))
    outputs = ("--json", "d.json", "--export", "haiku=why.txt")
    ended = whyidle("run", "--plan", "plan.toml", *outputs, sys.executable, "job.py")
    assert ended.returncode == 0, ended.stderr
    seconds, _, modules = ended.stdout.strip().partition(" ")
    assert float(seconds) < 3.0
    assert modules == "[]"
    assert (tmp_path / "why.txt").read_text().endswith("the device waits\n")
    notes = json.loads((tmp_path / "d.json").read_text())["coverage"]["notes"]
    applied = "Applied without editing the script: naps.length_ratio = 0.01"
    assert any(applied in note for note in notes)


def test_a_plan_with_a_setting_that_its_knob_does_not_take_is_refused(whyidle, tmp_path):
    (tmp_path / "plan.toml").write_text(PLAN.format(ratio=7.0))
    ended = whyidle("run", "--plan", "plan.toml", sys.executable, "-c", "print('ran')")
    assert ended.returncode == 1
    assert "'naps.length_ratio' cannot be 7.0" in ended.stderr
    assert "ran" not in ended.stdout
