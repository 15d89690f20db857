"""The jobs of the proof: the options of every twin are known to its script, on both targets."""

import argparse
import ast
import runpy
import sys

import pytest

from bench.gpu.job_run import JOBS
from bench.gpu.stages import cases, harm
from bench.gpu.target import Target
from bench.gpu.twins import HEALTHY, SICK

TARGETS = [Target("cuda", "a GPU", 10.0), Target("emulated", "emulated device", 5.0)]


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
