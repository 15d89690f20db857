"""Files are named as they are from where the command was started; programs read whole paths."""

from functools import partial

import msgspec
import pytest

from whyidle.model.diagnosis import Evidence, FixedJob, Place
from whyidle.reports import html, json, markdown, terminal

everything = partial(terminal.render, full=True)

FOLDER = "/home/u/photos"


@pytest.fixture
def told(build, finding):
    def make(file, folder):
        hot = Evidence(
            quantity="most of it happens in",
            value=f"{file}(29): load",
            unit=None,
            window=None,
            samples=None,
            source="stacks",
        )
        place = Place(file=file, line=29, function="load", rank=None)
        one = finding()
        fix = msgspec.structs.replace(one.fixes[0], summary=f"vectorise load ({file}:29)")
        one = msgspec.structs.replace(one, where=[place], evidence=[hot], fixes=[fix])
        found = build(findings=[one])
        return msgspec.structs.replace(found, run=msgspec.structs.replace(found.run, folder=folder))

    return make


@pytest.mark.parametrize("render", [everything, markdown.render, html.render])
@pytest.mark.parametrize("folder", [FOLDER, f"{FOLDER}/"])
def test_files_below_the_folder_of_the_run_are_named_from_there(told, render, folder):
    shown = render(told(f"{FOLDER}/data/read.py", folder))
    assert "data/read.py:29" in shown
    assert "data/read.py(29): load" in shown
    assert "load (data/read.py:29)" in shown
    assert FOLDER not in shown


@pytest.mark.parametrize("render", [everything, markdown.render, html.render])
@pytest.mark.parametrize("folder", [None, "", "/", "/home/u/photo", "/home/u/photos/data/read.py"])
def test_other_files_keep_their_paths(told, render, folder):
    assert f"{FOLDER}/data/read.py:29" in render(told(f"{FOLDER}/data/read.py", folder))


def test_programs_read_whole_paths(told):
    assert f'"{FOLDER}/data/read.py"' in json.render(told(f"{FOLDER}/data/read.py", FOLDER))


@pytest.mark.parametrize("render", [everything, markdown.render, html.render])
def test_what_remains_is_named_from_there_as_well(told, render):
    plain = told(f"{FOLDER}/data/read.py", FOLDER)
    fixed = FixedJob(
        run=None,
        attribution=plain.attribution,
        state="starved",
        headline="It waits",
        speedup=2.0,
        low=1.9,
        high=2.1,
        left=[f"It waits (small-file-random-io, {FOLDER}/data/read.py:29, 5% of the step)"],
    )
    detail = msgspec.structs.replace(plain.detail, fixed=fixed)
    shown = render(msgspec.structs.replace(plain, detail=detail))
    plainly = " ".join(shown.replace("\\", "").split())
    assert "small-file-random-io, data/read.py:29" in plainly
    assert FOLDER not in shown
