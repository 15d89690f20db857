"""An arm with a patch, with real processes: the copies are what is run, however they are found."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from own_sgd import OWN_SGD
from unguarded import Open

from whyidle.fix.arms.arm import ArmRequest, ArmResult, run_arm
from whyidle.fix.isolation import LEVELS, isolate
from whyidle.fix.loop.patch_check import explain_unloaded, found_as
from whyidle.fix.patching import patched_mirror
from whyidle.fix.patching.source_patch import KeptFix, make_patch
from whyidle.model.diagnosis import Edit, Place

pytest.importorskip("torch")

pytestmark = pytest.mark.real_processes("arms of a real job end by the clock")

TRAIN = f"""
import os, shutil
os.environ["A"] = "1"
{OWN_SGD}
shutil.rmtree("out")
os.mkdir("out")
for name in ("out/best.pt", "notes/log.txt"):
    with open(name, "a") as file:
        file.write("written")
print("A is", os.environ["A"])
model = torch.nn.Linear(4, 1)
optimizer = SGD(model.parameters(), lr=0.1)
for step in range(20):
    model(torch.ones(2, 4)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
SAVED = ("out/best.pt", "notes/log.txt")
INSTALLED = """
import sys
from importlib.util import spec_from_file_location

class Finder:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name == "own_package":
            return spec_from_file_location(name, {init!r})

sys.meta_path.append(Finder)
import own_package.train
"""


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package in ``lib``, installed for development in a way that no path shows, and what starts
    it; the job removes its results."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    package = tmp_path / "tree" / "lib" / "own_package"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "train.py").write_text(TRAIN)
    for name in SAVED:
        (tmp_path / "tree" / name).parent.mkdir()
        (tmp_path / "tree" / name).write_text(name)
    (tmp_path / "start").write_text(INSTALLED.format(init=str(package / "__init__.py")))
    monkeypatch.chdir(tmp_path / "tree")
    return tmp_path


def patched(job: Path, *runs):
    place = Place(file="lib/own_package/train.py", line=3, function=None)
    kept = KeptFix("debug-mode-off", [Edit(knob="env.A", value="0", was="1")], [place])
    patch = make_patch([kept], words(job), job / "tree")
    assert patch.files
    return found_as(patch, runs)


def words(job: Path) -> list[str]:
    return [sys.executable, str(job / "start")]


@pytest.mark.parametrize("level", LEVELS)
def test_a_package_that_no_path_shows_is_found_in_the_copies(job: Path, level):
    """And nothing of the user's is removed, or written through a link."""
    before = isolated(job, level, ArmRequest(steps=12))
    assert "A is 1" in before.output_end
    patch = patched(job, before)
    ran = isolated(job, level, ArmRequest(steps=12, patch=patch))
    assert "A is 0" in ran.output_end
    assert explain_unloaded(patch, ran) == ""
    assert [(job / "tree" / name).read_text() for name in SAVED] == list(SAVED)


def isolated(job: Path, level, asked: ArmRequest) -> ArmResult:
    folder = job / ("patched" if asked.patch else "before")
    (folder / "scratch").mkdir(parents=True)
    with isolate(folder / "scratch", real=[folder], best=level) as guard:
        return run_arm(words(job), asked, folder, guard)


def test_where_it_is_not_found_that_is_known(job: Path):
    patch = patched(job)
    ran = run_arm(words(job), ArmRequest(steps=12, patch=patch), job / "arm", Open())
    assert "A is 1" in ran.output_end
    name = Path("lib", "own_package", "train.py")
    assert explain_unloaded(patch, ran) == f"the command loads {name} from elsewhere"


def test_a_job_that_cannot_remove_a_link_of_ours_has_stumbled(
    job: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(patched_mirror, "SMALL", 0)
    ran = run_arm(words(job), ArmRequest(steps=12, patch=patched(job)), job / "arm", Open())
    assert ran.ending == "crashed"
    assert ran.failed_at_link
    assert (job / "tree" / SAVED[0]).exists()
