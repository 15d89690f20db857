"""A run with a patch says something of it only where it has loaded the patched files."""

from dataclasses import replace
from pathlib import Path

import pytest

from whyidle.fix.arms.arm import ArmResult
from whyidle.fix.arms.process_report import ProcessReport
from whyidle.fix.loop.patch_check import explain_unloaded, found_as
from whyidle.fix.patching.source_patch import SourcePatch
from whyidle.fix.patching.user_files import UserFiles

ROOT = Path("/repo")
PATCH = SourcePatch(
    "diff",
    {ROOT / "src/pkg/train.py": "", ROOT / "src/pkg/data.py": ""},
    (),
    UserFiles(ROOT, (), None, (), (ROOT,)),
)


def ran(*files):
    one = replace(TOLD, files=files[0])
    ranks = {rank: replace(TOLD, rank=rank, files=each) for rank, each in enumerate(files)}
    return ArmResult("stopped", 0, 4.0, Path("nowhere"), "", one, ranks=ranks)


TOLD = ProcessReport("stopped", 0, [], [])


def test_modules_of_patched_files_are_found_where_the_trials_found_them():
    found = found_as(
        PATCH,
        [
            ran({"/repo/src/pkg/train.py": ["/repo/src"], "/repo/other.py": ["/repo/others"]}),
            ran(None),
        ],
    )
    assert found.own.folders == (ROOT / "src", ROOT)


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ([None], ""),
        ([{"/tmp/copy/src/pkg/data.py": []}], ""),
        ([{}], "the command did not load src/pkg/data.py, as far as was recorded"),
        (
            [{"/repo/other.py": []}],
            "the command did not load src/pkg/data.py, as far as was recorded",
        ),
        (
            [{"/repo/src/pkg/train.py": []}],
            "the command loads src/pkg/train.py from elsewhere",
        ),
        (
            [{"/tmp/copy/src/pkg/train.py": []}, {"/repo/src/pkg/train.py": []}],
            "the command loads src/pkg/train.py from elsewhere",
        ),
    ],
    ids=["not known", "a copy", "nothing", "another file", "as it was", "as it was on one rank"],
)
def test_a_run_that_loaded_no_patched_file_checks_nothing(files, why):
    assert explain_unloaded(PATCH, ran(*files)) == why
