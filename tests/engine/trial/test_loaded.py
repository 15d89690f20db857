"""A run with a patch says something of it only where it has loaded the patched files."""

from dataclasses import replace
from pathlib import Path

import pytest

from whyidle.engine._own_files import OwnFiles
from whyidle.engine.patch import Patch
from whyidle.engine.trial.arm import Ran
from whyidle.engine.trial.loaded import found_as, unchecked
from whyidle.engine.trial.told import Told

ROOT = Path("/repo")
PATCH = Patch(
    "diff",
    {ROOT / "src/pkg/train.py": "", ROOT / "src/pkg/data.py": ""},
    (),
    OwnFiles(ROOT, (), None, (), (ROOT,)),
)


def ran(*files):
    one = replace(TOLD, files=files[0])
    ranks = {rank: replace(TOLD, rank=rank, files=each) for rank, each in enumerate(files)}
    return Ran("stopped", 0, 4.0, Path("nowhere"), "", one, ranks=ranks)


TOLD = Told("stopped", 0, [], [])


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
        ([{}], "the command was not seen to load src/pkg/data.py"),
        ([{"/repo/other.py": []}], "the command was not seen to load src/pkg/data.py"),
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
    assert unchecked(PATCH, ran(*files)) == why
