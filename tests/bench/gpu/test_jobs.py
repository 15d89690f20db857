"""The jobs of the proof: the options of every twin are known to its script, on both targets."""

import argparse
import ast
import runpy
import sys
from pathlib import Path

import pytest

from bench.gpu.job_run import JOBS
from bench.gpu.stage import NAMES, StageResult, load_stage
from bench.gpu.stages import attribution, cases, harm
from bench.gpu.target import GPU_JOB_S, Target
from bench.gpu.twins import HEALTHY, SICK

TARGETS = [Target("cuda", "a GPU", 10.0), Target("emulated", "emulated device", 5.0)]
TOTAL_S = 9 * 60


class ParsedError(Exception):
    """The options were understood."""


def list_commands(target):
    """Every script with every set of options that a stage gives it."""
    for twin in (*SICK, *HEALTHY):
        yield twin.script, twin.options(target, cured=False)
        yield twin.script, twin.options(target, cured=True)
    classifier = [*cases.CLASSIFIER[target.kind], "--workers", "2", "--work", "3"]
    yield cases.IMAGES, [*classifier, "--resident"]
    yield cases.IMAGES, [*classifier, "--loader-only"]
    yield cases.LANGUAGE, [*cases.SIZES[target.kind], "--ideal"]
    yield harm.SCRIPT, harm.SIZES[target.kind]


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.kind)
def test_a_script_knows_its_options(target, monkeypatch):
    pytest.importorskip("torch")
    parse_args = argparse.ArgumentParser.parse_args

    def parse(parser):
        parse_args(parser)
        raise ParsedError

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parse)
    monkeypatch.syspath_prepend(str(JOBS))
    for script, options in list_commands(target):
        monkeypatch.setattr(sys, "argv", ["job", *options])
        with pytest.raises(ParsedError):
            runpy.run_path(str(JOBS / script), run_name="__main__")


@pytest.mark.parametrize("twin", [twin for twin in SICK if twin.place], ids=lambda twin: twin.name)
def test_the_place_of_a_defect_is_in_the_script(twin):
    assert twin.line_number()


@pytest.mark.parametrize("twin", [twin for twin in SICK if twin.defect], ids=lambda twin: twin.name)
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.kind)
def test_a_defect_and_its_cure_are_python(target, twin, tmp_path):
    texts = set()
    for cured in (False, True):
        changes = twin.script_changes(cured=cured)
        copy = target.write_script(JOBS / twin.script, tmp_path / str(cured), changes)
        texts.add(copy.read_text(encoding="utf-8"))
        ast.parse(copy.read_text(encoding="utf-8"))
    assert len(texts) == 2


def test_a_script_that_lacks_the_healthy_text_is_named(tmp_path):
    with pytest.raises(ValueError, match="lacks 'pin_memory=False'"):
        TARGETS[0].write_script(JOBS / "tables.py", tmp_path, [("pin_memory=False", "")])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.kind)
def test_items_have_names_of_their_own_and_a_cost(name, target):
    items = load_stage(name).items(target)
    assert items
    assert len({item.name for item in items}) == len(items)
    assert all(0 <= item.cost_s <= TOTAL_S for item in items)


def test_a_gpu_is_wanted_for_22_minutes_and_for_nine_at_once(tmp_path):
    gpu = Target("cuda", "a GPU", GPU_JOB_S, out=tmp_path)
    known = {name: {"status": "done", "result": {}} for name in attribution.NAMES}
    StageResult("attribution", gpu.name, False, known).store(tmp_path)
    costs = {name: sum(item.cost_s for item in load_stage(name).items(gpu)) for name in NAMES}
    assert max(costs.values()) < TOTAL_S
    assert sum(costs.values()) < 22 * 60


@pytest.mark.parametrize("name", NAMES)
def test_the_short_rehearsal_has_fewer_items_or_as_many(name):
    short = Target("emulated", "emulated device", 5.0, short=True, out=Path("unused"))
    chosen = {item.name for item in load_stage(name).items(short)}
    assert chosen
    assert chosen <= {item.name for item in load_stage(name).items(TARGETS[1])}
