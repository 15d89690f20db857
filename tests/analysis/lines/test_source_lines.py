"""How a place is told in a sentence."""

import pytest

from whyidle.analysis.facts import Facts
from whyidle.analysis.lines.source_lines import at_place, in_library, package_of
from whyidle.model.diagnosis import Place
from whyidle.testing.builder import ms
from whyidle.testing.recorded_job import RecordedJob


@pytest.mark.parametrize(
    ("function", "line", "told"),
    [
        ("metrics", 12, " in metrics"),
        ("<module>", 12, " at train.py:12"),
        ("<lambda>", 3, " at train.py:3"),
        ("<module>", None, ""),
        (None, 12, ""),
    ],
)
def test_code_outside_functions_is_known_by_its_line(function, line, told):
    place = Place(file="/home/u/train.py", line=line, function=function)
    assert at_place((place,)) == told


def test_no_place_is_told_as_nothing():
    assert at_place(()) == ""


@pytest.mark.parametrize(
    ("file", "library"),
    [
        ("/home/me/lightning/train.py", False),
        ("/home/me/project/datasets/pictures.py", False),
        ("/home/me/torch/train.py", False),
        ("/home/me/random/json/copy.py", False),
        ("datasets/pictures.py", False),
        ("train.py", False),
        ("datasets/arrow_dataset.py", True),
        ("torch/nn/modules/linear.py", True),
        ("queue.py", True),
        ("/venv/lib/python3.11/site-packages/lightning/fabric/fabric.py", True),
        ("/usr/lib/python3.11/queue.py", True),
        ("/opt/pytorch/torch/nn/modules/linear.py", True),
        ("/src/transformers/src/transformers/models/bert/modeling_bert.py", True),
        ("<frozen importlib._bootstrap>", True),
    ],
)
def test_a_library_is_known_by_where_it_lies(file, library):
    assert in_library(Place(file=file, line=1, function="f")) is library


AT = "/job/train.py(48): estimate;/job/train.py(66): <module>"
LAYER = "/lib/site-packages/torch/nn/modules/linear.py(134): forward"


def place(*stacks, name="evaluation"):
    """Of a call during which these were looked at."""
    job = RecordedJob()
    with job.call(name):
        for stack in stacks:
            job.work(stack, ms(4))
    facts = Facts(job.timeline())
    names = facts.timeline.names
    (row,) = [row for row, i in enumerate(facts.timeline.host.name) if names[i] == name]
    found = facts.places.place_of_samples(int(row))
    return found and (found.line, found.function)


def test_a_call_is_where_all_looks_at_it_lie():
    """And not in whatever of it the first one shows."""
    forward, fetch = (f"/job/{at};{AT}" for at in ("model.py(26): forward", "train.py(30): fetch"))
    assert place(f"{LAYER};{forward}", fetch.replace("48", "47")) == (48, "estimate")
    assert place(f"{LAYER};{forward}") == (26, "forward")
    assert place(f"{LAYER};{forward}", "/job/other.py(3): run") == (26, "forward")
    assert place(LAYER) is None
    assert place() is None


@pytest.mark.parametrize(
    ("frame", "package"),
    [
        ("/env/lib/python3.11/site-packages/keras/src/ops/core.py(7): f", "keras"),
        ("/usr/lib/python3/dist-packages/yaml/loader.py(7): f", "yaml"),
        ("/usr/lib/python3.11/threading.py(7): wait", "threading"),
        ("/home/me/train.py(7): f", ""),
    ],
)
def test_the_package_of_a_frame(frame, package):
    assert package_of(frame) == package
