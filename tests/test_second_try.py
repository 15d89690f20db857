"""The rule for tests that fail beside others and pass alone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

TESTS = """
import pytest

def test_plain():
    pass

@pytest.mark.real_processes("the machine decides")
def test_marked():
    pass
"""


PLAIN = ["-p", "no:cacheprovider", "-p", "no:hypothesispytest", "-p", "no:xdist"]
"""without the plug-ins that take longest to load"""


def run_pytest(folder, *options, ci):
    """How many tests pass and fail under our rule, as pytest's last line says it."""
    (folder / "conftest.py").write_bytes(Path(__file__).with_name("conftest.py").read_bytes())
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = real_processes(reason): x\n")
    (folder / "test_it.py").write_text(TESTS)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *PLAIN, *options],
        cwd=folder,
        env={**os.environ, "CI": ci, "PYTEST_ADDOPTS": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.stdout.splitlines()[-1]


@pytest.mark.parametrize(
    ("options", "ci", "expected"),
    [
        (["--second-try"], "true", "1 failed, 1 passed"),
        (["--second-try"], "", "2 passed"),
        ([], "true", "2 passed"),
    ],
)
def test_only_real_processes_may_pass_at_the_second_try_in_ci(tmp_path, options, ci, expected):
    assert run_pytest(tmp_path, *options, ci=ci).startswith(expected)
