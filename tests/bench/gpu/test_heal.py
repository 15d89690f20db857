"""What the stage ``heal`` does with the patch that ``fix`` wrote."""

import shutil

import pytest

from bench.gpu.stages.heal import apply_patch

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
