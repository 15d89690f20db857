"""A command that did not end well: that is said first, in every form."""

import msgspec
import pytest

from whyidle.reports import html, markdown, terminal

RENDERS = [terminal.render, markdown.render, html.render]


def ended(diagnosis, status):
    run = msgspec.structs.replace(diagnosis.run, exit_status=status)
    said = msgspec.structs.replace(diagnosis.verdict, headline="The device starves")
    return msgspec.structs.replace(diagnosis, run=run, verdict=said)


def body(render, diagnosis):
    shown = render(diagnosis)
    return " ".join(shown[shown.find("<main") + 1 :].split())


@pytest.mark.parametrize("render", RENDERS)
@pytest.mark.parametrize(
    ("status", "said"),
    [
        (1, "failed with status 1;"),
        (137, "failed with status 137, killed by SIGKILL;"),
        (200, "failed with status 200;"),
        (130, "SIGINT ended the command (status 130);"),
    ],
)
def test_how_it_ended_comes_before_the_verdict(full, render, status, said):
    shown = body(render, ended(full, status)).replace("\\", "")
    assert 0 <= shown.index(said) < shown.index("The device starves")
    assert ("failed" in shown[: shown.index(said) + 9].lower()) == (status != 130)


@pytest.mark.parametrize("render", RENDERS)
@pytest.mark.parametrize("status", [0, None])
def test_what_ended_well_or_not_at_all_is_not_said_to_have_failed(full, render, status):
    shown = body(render, ended(full, status))
    assert "status" not in shown[: shown.index("The device starves")]


def test_where_the_headline_is_about_nothing_else_it_is_not_said_twice(full):
    run = msgspec.structs.replace(full.run, exit_status=2, command=["python", "train.py"])
    steps = msgspec.structs.replace(full.steps, detected_by=None)
    none = dict.fromkeys(full.attribution.__struct_fields__, 0.0)
    shares = msgspec.structs.replace(full.attribution, **{**none, "unknown": 1.0})
    blank = msgspec.structs.replace(full, run=run, steps=steps, attribution=shares, findings=[])
    assert blank.command_failed
    assert "what follows is of the time before" not in " ".join(terminal.render(blank).split())
