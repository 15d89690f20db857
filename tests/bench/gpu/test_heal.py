"""What the stage ``heal`` does with the patch that ``fix`` wrote, and that it can write one."""

import shutil

import pytest

from bench.gpu.job_run import JOBS, job_words
from bench.gpu.stages import heal
from bench.gpu.stages.heal import apply_patch
from bench.gpu.target import Target
from bench.gpu.twins import find_twin
from whyidle.fix.patching.source_patch import KeptFix, make_patch
from whyidle.model.diagnosis import Edit, Place

EDITS = {
    "loader-without-workers": [Edit(knob="loader.workers", value=8, was=0)],
    "pageable-copies": [
        Edit(knob="loader.pin_memory", value=True),
        Edit(knob="copy.non_blocking", value=True),
    ],
    "fp32": [Edit(knob="autocast.dtype", value="bfloat16")],
    "unfused-optimizer": [Edit(knob="optimizer.fused", value=True, was=False)],
    "allocator-churn": [Edit(knob="memory.empty_cache_every", value=50, was=1)],
}

PATCH = """--- a/train.py
+++ b/train.py
@@ -1,2 +1,2 @@
 import torch
-workers = 0
+workers = 8
"""


@pytest.fixture
def source(tmp_path):
    folder = tmp_path / "job"
    folder.mkdir()
    (folder / "train.py").write_text("import torch\nworkers = 0\n")
    return folder


def test_a_patch_changes_the_copy_only(source, tmp_path):
    if shutil.which("git") is None:
        pytest.skip("there is no git")
    patch, copy = tmp_path / "fix.patch", tmp_path / "patched"
    patch.write_text(PATCH)
    assert apply_patch(patch, source, copy) == ""
    assert "workers = 8" in (copy / "train.py").read_text()
    assert "workers = 0" in (source / "train.py").read_text()


def test_a_patch_that_is_missing_or_does_not_fit_is_named(source, tmp_path):
    patch = tmp_path / "fix.patch"
    assert apply_patch(patch, source, tmp_path / "one") == "fix wrote no patch"
    patch.write_text(PATCH.replace("workers = 0", "workers = 4"))
    assert apply_patch(patch, source, tmp_path / "two").startswith(("git apply: ", "no git"))


@pytest.mark.parametrize("name", heal.NAMES)
def test_every_job_to_heal_can_be_patched(name, tmp_path):
    target, twin = Target("cuda", "a GPU", 6.0), find_twin(name)
    changes = twin.script_changes(cured=False)
    copy = target.write_script(JOBS / twin.script, tmp_path, changes)
    line = twin.line_number()
    where = [Place(function="main", file=copy.name, line=line)] if line else []
    words = job_words(target, copy.name, twin.options(target, cured=False), 1.0)
    patch = make_patch([KeptFix("fix", EDITS[name], where)], words, tmp_path)
    assert patch.diff
    assert not patch.sentences
