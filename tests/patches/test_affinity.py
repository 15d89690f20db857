"""Workers get the cores back that the script was given: its first lines see to it."""

import os
import subprocess
import sys

import pytest
from patching import rewrite

KNOB = "loader.full_affinity"
HEAD = "import os\n\n# workers may use all cores"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("", "import torch\nx = 1\n"),
        ('"""Trains."""\n', "import torch\n"),
        ('"""Trains."""\nfrom __future__ import annotations\n', "\nimport torch\n"),
        ("# !/usr/bin/python\n", "import torch\n"),
    ],
)
def test_it_comes_before_all_that_could_take_them(before, after):
    found = rewrite(before + after, KNOB, True, False, insert=True)
    assert found.done
    assert found.text.startswith(before)
    assert found.text.endswith(after.lstrip("\n"))
    assert HEAD in found.text
    assert found.text.index(HEAD) < found.text.index("import torch")
    assert rewrite(found.text, KNOB, True, False, insert=True).text == found.text


def test_only_the_script_itself_knows_what_it_was_given():
    text = "import torch\n"
    assert not rewrite(text, KNOB, True, False).done
    assert not rewrite('"""Nothing."""\n', KNOB, True, False, insert=True).done


@pytest.mark.skipif(
    not hasattr(os, "sched_getaffinity") or len(os.sched_getaffinity(0)) < 2,
    reason="needs two cores, and affinity: Linux",
)
def test_forks_have_all_cores_and_the_process_stays_bound():
    script = """
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
if os.fork() == 0:
    print(len(os.sched_getaffinity(0)), flush=True)
    os._exit(0)
os.wait()
print(len(os.sched_getaffinity(0)))
"""
    text = rewrite("import os\n" + script, KNOB, True, False, insert=True).text
    said = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, check=True, timeout=60
    ).stdout
    assert said.split() == [str(len(os.sched_getaffinity(0))), "1"]
