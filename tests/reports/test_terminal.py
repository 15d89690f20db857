"""The report for a terminal: at every width, with and without colours, whatever the recording."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import msgspec
import pytest
from rich.cells import cell_len

from imagined_jobs import SICK, healthy
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.model.buckets import BUCKETS
from whyidle.model.diagnosis import Attribution, Diagnosis, Edit, FixedJob, Trial, Verdict
from whyidle.model.signals import SIGNALS
from whyidle.reports._text_bar import LETTERS, allocate_cells
from whyidle.reports._text_page import Page, whole_clauses
from whyidle.reports.terminal import render
from whyidle.testing.builder import Builder, us
from whyidle.testing.demo import job

ESCAPE = re.compile(r"\x1b\[[0-9;]*m")
NEXT = [("whyidle causes x", "what it is"), ("whyidle report last", "again")]


@pytest.fixture(scope="module")
def diagnosis() -> Diagnosis:
    return diagnose_job([job().timeline()])


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
@pytest.mark.parametrize("full", [False, True])
def test_fits_and_is_plain(diagnosis: Diagnosis, width: int, full: bool):
    text = render(diagnosis, width=width, full=full, next_steps=NEXT)
    assert text.isascii()
    assert "\x1b" not in text
    wide = [line for line in text.split("\n") if cell_len(line) > width]
    assert not [line for line in wide if len(line.strip().removeprefix("fix    ").split()) > 1]
    assert not [line for line in text.split("\n") if line != line.rstrip()]
    assert text.endswith("\n")


@pytest.mark.parametrize("colours", ["truecolor", "256", "standard"])
def test_colours_do_not_change_the_words(diagnosis: Diagnosis, colours):
    text = render(diagnosis, colours=colours)
    assert "\x1b[" in text
    words = ESCAPE.sub("", text)
    assert "STARVED" in words
    assert not [line for line in words.split("\n") if cell_len(line) > 80]
    assert "█" in words


def test_the_verdict_comes_first_then_the_bar_then_the_findings(diagnosis: Diagnosis):
    text = render(diagnosis, next_steps=NEXT)
    order = ["STARVED", "# compute", "by line", "1. CRITICAL", "\n  next ", "whyidle causes x"]
    places = [text.index(word) for word in order]
    assert places == sorted(places)


def test_same_document_same_text(diagnosis: Diagnosis):
    assert render(diagnosis) == render(diagnosis)


@pytest.mark.parametrize(("status", "most"), [(2, 1), (0, 6)])
def test_a_command_without_a_step_gets_a_few_lines(diagnosis: Diagnosis, status: int, most: int):
    replace = msgspec.structs.replace
    nothing = dict.fromkeys(BUCKETS, 0.0) | {"unknown": 1.0}
    blank = replace(
        diagnosis,
        run=replace(diagnosis.run, command=["python", "nope.py"], exit_status=status),
        steps=replace(diagnosis.steps, detected_by=None, mean_s=None),
        attribution=Attribution(**nothing),
        verdict=Verdict(state="inconclusive", headline="No training step was seen", bound=None),
        findings=[],
        utilization=replace(diagnosis.utilization, busy=None),
        device=replace(diagnosis.device, name=None),
        detail=replace(diagnosis.detail, groups={}),
        coverage=replace(diagnosis.coverage, notes=[]),
    )
    text = render(blank, next_steps=[("whyidle doctor", "what can be measured here")])
    assert len(text.strip().splitlines()) <= most
    assert "No training step was seen" in text
    assert ("whyidle doctor" in text) == (status == 0)
    assert "not checked" not in text
    assert "not checked" in render(blank, full=True)


@pytest.mark.parametrize("name", [*SICK, "healthy"])
def test_every_imagined_job(name: str):
    found = diagnose_job([SICK.get(name, healthy)().timeline()])
    text = render(found, full=True)
    assert found.verdict.state.upper() in text
    assert all(finding.cause in text for finding in found.findings)


def test_a_recording_cannot_speak_to_the_terminal(diagnosis: Diagnosis):
    replace = msgspec.structs.replace
    evil = "a\x1b[2J\x1b]0;owned\x07b\u202e\r\nc"
    verdict = replace(diagnosis.verdict, headline=evil)
    device = replace(diagnosis.device, name=evil * 200)
    text = render(replace(diagnosis, verdict=verdict, device=device))
    assert "\x1b" not in text
    assert "\x07" not in text
    assert "\u202e" not in text


def test_names_stay_as_they_are(diagnosis: Diagnosis):
    """Only our own typography becomes ASCII; a path in another script is shown as it is."""
    device = msgspec.structs.replace(diagnosis.device, name="données/モデル")
    assert "données/モデル" in render(msgspec.structs.replace(diagnosis, device=device))


def test_what_could_not_be_judged_says_how_to_get_it():
    found = diagnose_job([healthy().timeline()])
    if found.abstentions:
        assert "not checked" in render(found)
        assert "To record it, " in render(found, full=True)


@pytest.mark.parametrize("width", [10, 40, 76, 196])
def test_cells_add_up(width: int):
    shares = dict.fromkeys(BUCKETS, 0.001) | {"compute": 0.5, "host": 0.3}
    cells = allocate_cells(shares, width)
    assert sum(cells.values()) == width
    assert min(cells.values()) >= 1
    assert cells["compute"] >= cells["host"]
    assert allocate_cells({}, 10) == {}


def test_letters_tell_buckets_apart():
    assert set(LETTERS) == set(BUCKETS)
    assert len(set(LETTERS.values())) == len(BUCKETS)


def test_wide_characters_are_wrapped_by_their_width():
    page = Page(20, None)
    page.write_paragraph(page.styled_text("モデル " * 10), head=page.styled_text("x "))
    assert all(cell_len(line) <= 20 for line in page.page_text().split("\n"))


def test_a_path_is_never_broken_in_two(build, finding):
    path = "site-packages/" + "deep/" * 15 + "model.py"
    found = finding(text=path)
    untried = msgspec.structs.replace(build(findings=[found]), trials=[])
    shown = render(untried, width=80)
    assert f"{path}:12" in shown
    assert not [line for line in shown.split("\n") if cell_len(line) > 140]


def test_what_was_not_recorded_is_told_by_signal_and_not_by_cause():
    made = Builder()
    with made.step():
        made.op("aten::mm", host=us(900))
    found = diagnose_job([made.timeline()])
    ways = {SIGNALS[item.missing[0]].how for item in found.abstentions}
    shown = " ".join(render(found, full=True).split())
    assert f"{len(found.abstentions)} causes not checked" in render(found)
    unjudged = shown[shown.index("Causes that could not be judged") :]
    assert unjudged.count(" not recorded: ") == len(ways) < 9 < len(found.abstentions)


def _demo() -> Diagnosis:
    return diagnose_job([job().timeline()])


def _clean() -> Diagnosis:
    return diagnose_job([healthy().timeline()])


def _watched(status: int = 0, **changes: object) -> Diagnosis:
    found = _demo()
    command = ["python", "train.py", "--data", "/datasets/images", "--epochs", "90"]
    run = msgspec.structs.replace(found.run, command=command, exit_status=status)
    return msgspec.structs.replace(found, run=run, **changes)


def _two_ranks() -> Diagnosis:
    timelines = [replace(job(loader_ms=42.0 * (1 + rank)).timeline(), rank=rank) for rank in (0, 1)]
    return diagnose_job(timelines)


def _spoilt() -> Diagnosis:
    found = _watched()
    spoils = ["other programs used 3.1 of the machine's 4 cores and no core was idle " * 2] * 2
    coverage = msgspec.structs.replace(found.coverage, spoils=spoils, notes=spoils)
    return msgspec.structs.replace(found, coverage=coverage)


def _fixed() -> Diagnosis:
    found = _watched()
    worker = Edit(knob="loader.workers", value=12, was=0)
    first = Trial(
        fix="loader-workers", consent="rounding", baseline=0.072, treated=0.006, speedup=12.0,
        low=11.0, high=13.0, predicted=8.0, numerics="40 losses, equal", kept=True, why="",
        cause="dataloader-no-workers", summary="DataLoader(..., num_workers=12)", pairs=2,
        edits=[worker],
    )  # fmt: skip
    second = msgspec.structs.replace(
        first, speedup=1.22, low=1.1, high=1.3, summary="DataLoader(..., num_workers=16)",
        edits=[msgspec.structs.replace(worker, value=16, was=12)], notes=["files came from memory"],
    )  # fmt: skip
    slower = msgspec.structs.replace(first, fix="pin-memory", kept=False, why="slower", notes=[])
    fixed = FixedJob(
        run="20260101-000000-000001", attribution=found.attribution, state="saturated",
        headline="fine", speedup=14.6, low=14.0, high=15.0, left=["loading takes 9 ms"] * 4,
    )  # fmt: skip
    detail = msgspec.structs.replace(found.detail, fixed=fixed)
    return msgspec.structs.replace(found, detail=detail, trials=[first, second, *[slower] * 5])


STEPS = [
    ("whyidle fix python train.py --data /datasets/images --epochs 90", "try the fixes and keep"),
    ("whyidle report last", "everything"),
    ("whyidle report last --html why.html", "as an HTML page"),
]


@pytest.mark.parametrize(
    "make", [_demo, _clean, lambda: _watched(1), _spoilt, _two_ranks, _fixed],
    ids=["demo", "clean", "failed", "spoilt", "two ranks", "fixed"],
)  # fmt: skip
def test_a_report_fits_one_screen_and_ends_with_what_to_do(make: Callable[[], Diagnosis]):
    text = render(make(), next_steps=STEPS)
    assert text.count("\n") <= 30
    assert any("whyidle fix python train.py" in line for line in text.splitlines()[-7:])
    assert max(map(len, text.splitlines())) <= 80
    assert text.count("try the fixes") <= 1


def test_what_spoils_the_measurement_stands_beside_the_verdict():
    text = render(_spoilt())
    assert text.index("STARVED") < text.index("other programs used") < text.index("# compute")


def test_values_of_one_setting_are_one_entry_with_the_whole_gain():
    text = render(_fixed(), full=True)
    assert "1 fix kept: loader-workers" in text
    assert "loader.workers 0 -> 16" in text
    assert "15x as fast" in text
    assert text.count("KEPT loader-workers") == 1


def test_a_job_that_waits_for_no_known_cause_is_told_for_what_at_the_end(full):
    headline = "The CPU waits for the other ranks 39% of the time, 99% of it at line 23; no cause"
    verdict = msgspec.structs.replace(full.verdict, state="starved", headline=headline, cause=None)
    text = render(msgspec.structs.replace(full, verdict=verdict))
    assert "STARVED: The CPU waits for the other ranks 39% of the time\n" in text


FIRST = "then replace the loop by operators on whole tensors (broadcasting)"
LONG = "one clause of many words, with commas, and no other place to stop at"


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("short; whole", "short; whole"),
        ("keep the first part (a; b) of it; drop the rest", "keep the first part (a; b) of it"),
        (f"a; {FIRST}; mask", f"a; {FIRST}"),
        (LONG, LONG),
    ],
)
def test_a_summary_ends_with_a_whole_clause_even_if_that_is_longer(text, left):
    assert whole_clauses(text, 40) == left
