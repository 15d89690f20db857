"""The truth file says all that it must of every job, and the jobs are there."""

import ast
import shlex
from collections import Counter

import msgspec
import pytest

from field.measure import agree
from field.processes import scratch_folder
from field.truth import (
    CURED,
    JOBS,
    Job,
    draw_halves,
    find_defects,
    read_truth,
)

TRUTH = read_truth()


def test_nothing_is_missing_from_the_truth():
    assert TRUTH
    assert find_defects(TRUTH) == []


@pytest.mark.parametrize("path", sorted(JOBS.glob("*.py")), ids=lambda path: path.stem)
def test_a_job_compiles_and_tells_its_seconds(path):
    text = path.read_text("utf-8")
    compile(text, path.name, "exec", ast.PyCF_ONLY_AST)
    assert "took {" in text


def test_every_script_belongs_to_a_job_and_every_cure_fits():
    named = {
        word
        for job in TRUTH.values()
        for command in (job.command, *([] if job.healthy else [job.cured_command]))
        for word in shlex.split(command)
    }
    with scratch_folder() as folder:
        made = {path.name for path in folder.glob("*.py")}
        for path in folder.glob(f"*{CURED}.py"):
            compile(path.read_text("utf-8"), path.name, "exec", ast.PyCF_ONLY_AST)
    assert made >= {name for name in named if name.endswith(".py")}
    assert made - named <= {"numbers_every_step_cured.py", "no_workers_in_memory_cured.py"}


def test_there_are_enough_jobs_of_each_kind_and_half():
    assert Counter(job.half for job in TRUTH.values()) == {"known": 29, "open": 37, "reserved": 37}
    assert sum(job.healthy for job in TRUTH.values()) >= 15


def test_the_halves_are_those_that_the_seed_draws():
    assert draw_halves(TRUTH) == TRUTH


def job(**changes):
    plain = Job(half="open", source="s", kind="k", command="python norms_every_step.py", place="x")
    return msgspec.structs.replace(plain, **changes)


def test_defects_are_named():
    defects = find_defects(
        {
            "one": job(command="python nowhere.py"),
            "two": job(place=""),
            "three": job(place="no such line"),
        }
    )
    assert [text.partition(":")[0] for text in defects] == ["one", "two", "three"]


def test_results_agree_within_rounding():
    assert agree((1.0, 2.0), (1.001, 2.0))
    assert not agree((1.0, 2.0), (1.1, 2.0))
    assert not agree((1.0,), (1.0, 2.0))
