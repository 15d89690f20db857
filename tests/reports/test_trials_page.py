"""Trials in every form: what was kept, what it was promised, and what was not tried."""

import re
from functools import partial

import msgspec
import pytest

from whyidle.fix.loop import fix_document, optimize
from whyidle.fix.loop.candidates import Candidate
from whyidle.fix.loop.trial_result import TrialResult, declined_reason
from whyidle.model.diagnosis import Edit, FixedJob, Predicted, Trial
from whyidle.model.fix import CONSENTS
from whyidle.reports import html, markdown, terminal
from whyidle.reports._trial_outcomes import order_findings

everything = partial(terminal.render, full=True)

KEPT = Trial(
    fix="loader-workers",
    consent="rounding",
    baseline=0.2,
    treated=0.1,
    speedup=2.0,
    low=1.8,
    high=2.2,
    predicted=1.7,
    numerics="40 losses, the same bit for bit",
    kept=True,
    why="",
    promised=Predicted(speedup=1.7, low=1.4, high=2.1, method="P1"),
    cause="dataloader-no-workers",
    summary="give the loader workers",
    pairs=2,
    startup_s=4.0,
    pays_after_steps=40.0,
    notes=["files came from storage"],
)
UNTRIED = msgspec.structs.replace(
    KEPT, fix="staged-data", speedup=None, kept=False, tried=False, why="left to you"
)
ONCE = msgspec.structs.replace(KEPT, fix="gc-freeze", speedup=0.6, pairs=1, kept=False)


@pytest.fixture
def fixed(build, full):
    def make(**named):
        told = FixedJob(
            run=None,
            attribution=full.attribution,
            state="saturated",
            headline="fine",
            speedup=2.0,
            low=1.8,
            high=2.2,
            **named,
        )
        detail = msgspec.structs.replace(full.detail, fixed=told)
        return msgspec.structs.replace(full, detail=detail, trials=[KEPT, ONCE, UNTRIED])

    return make


@pytest.mark.parametrize("render", [everything, markdown.render, html.render])
def test_the_outcome_and_both_numbers_are_told(fixed, render):
    told = render(fixed())
    assert "2.00" in told
    assert "1.70" in told
    assert "1.80 to 2.20" in told.replace("(", "").replace(")", "")
    assert "staged-data" in told
    assert "left to you" in told
    assert "files came from storage" in " ".join(told.split())


@pytest.mark.parametrize("numerics", ["40 losses, the same bit for bit", None])
@pytest.mark.parametrize("render", [everything, markdown.render, html.render])
def test_why_and_with_which_consent_it_was_tried_is_told(build, render, numerics):
    def shown(consent):
        one = msgspec.structs.replace(KEPT, consent=consent, numerics=numerics)
        tried = msgspec.structs.replace(build(findings=[]), trials=[one])
        told = re.sub(r"<[^>]*>|[*`\\|]", " ", render(tried))
        return " ".join(told.split())

    for consent, words in CONSENTS.items():
        assert words in shown(consent)
        assert all(words not in shown(other) for other in CONSENTS if other != consent)
    assert re.search("loader-workers (for )?dataloader-no-workers", shown("none"))


def test_what_the_job_did_not_take_up_was_not_tried(full):
    edit = Edit(knob="loader.workers", value=2)
    candidate = Candidate("loader-workers", "", "rounding", "", (edit,), None, "")
    judged = TrialResult(candidate, reason=declined_reason("it is compiled"))
    found = optimize.Optimized(full, None, [judged], [], [], None, 1.0, None)
    told = " ".join(everything(fix_document.make_document(found)).split())
    assert "- loader-workers: declined: it is compiled" in told
    assert "1 fix known, none could be tried" in told


def test_advice_says_what_to_do(fixed):
    rarer = msgspec.structs.replace(UNTRIED, edits=[], summary="write every tenth value")
    edits = [Edit(knob="loader.workers", value=8, was=0)]
    asked = msgspec.structs.replace(rarer, edits=edits, summary="DataLoader(num_workers=8)")
    told = [msgspec.structs.replace(fixed(), trials=[KEPT, one]) for one in (rarer, asked)]
    shown = [everything(one) for one in told]
    assert "write every tenth value" in " ".join(shown[0].split())
    assert "DataLoader(num_workers=8)" not in shown[1]  # the finding has it as its fix


def test_what_is_saved_is_told_in_hours_and_at_a_price_in_money(fixed):
    shown = everything(fixed(price_per_hour=3.0, samples_per_s_before=50.0, samples_per_s=99.0))
    assert "saves 50 of every 100 hours of this job (150.00 at 3.00 per hour)" in shown
    assert "throughput: 50.0 -> 99.0 samples/s" in shown
    assert "an hour" not in everything(fixed())


def test_hours_that_are_saved_count_what_a_fix_costs_at_the_start(fixed):
    assert "saves 40 of every 100 hours" in everything(fixed(startup_share=0.1))
    assert "hours of this job" not in everything(fixed(startup_share=0.5))


def test_a_gain_that_is_in_doubt_is_no_headline(fixed):
    job = fixed(doubt="it took 1 s and 2 s")
    doubted = msgspec.structs.replace(job.detail.fixed, speedup=None, low=None, high=None)
    detail = msgspec.structs.replace(job.detail, fixed=doubted)
    shown = everything(msgspec.structs.replace(job, detail=detail))
    assert "FIXED: 1 fix kept: loader-workers; it took 1 s and 2 s" in " ".join(shown.split())
    assert "hours of this job" not in shown


def test_an_interval_wider_than_threefold_is_told_by_its_low_end(fixed):
    job = fixed(samples_per_s_before=50.0, samples_per_s=1850.0)
    gain = {"speedup": 37.0, "low": 5.6, "high": 245.0}
    wide = msgspec.structs.replace(job.detail.fixed, **gain)
    shown = everything(
        msgspec.structs.replace(
            job,
            detail=msgspec.structs.replace(job.detail, fixed=wide),
            trials=[msgspec.structs.replace(KEPT, **gain)],
        )
    )
    assert "FIXED: at least 5.60x as fast with 1 fix kept" in shown
    assert "saves at least 82 of every 100 hours" in shown
    assert "50.0 -> at least 280 samples/s" in shown
    assert "37" not in shown
    assert "245" not in shown


def test_without_trials_nothing_is_said_of_them(full):
    plain = msgspec.structs.replace(full, trials=[])
    assert "not tried" not in everything(plain)
    assert "Trials" not in markdown.render(plain)


@pytest.mark.parametrize("render", [everything, markdown.render])
def test_what_it_became_comes_before_what_it_was(fixed, render):
    shown = " ".join(render(fixed()).split())
    assert shown.replace("×", "x").index("2.00x as fast with 1 fix kept") < shown.index("35%")
    assert "first fix:" not in shown
    if render is everything:
        assert "BEFORE: STARVED:" in shown


@pytest.mark.parametrize("render", [everything, markdown.render, html.render])
def test_that_nothing_was_kept_is_said(full, render):
    def shown(*trials):
        return " ".join(render(msgspec.structs.replace(full, trials=list(trials))).split())

    assert "2 fixes tried, none kept" in shown(ONCE, ONCE, UNTRIED)
    assert "1 fix known, none could be tried: left to you" in shown(UNTRIED)
    assert "none kept" not in shown(KEPT, ONCE)
    assert "none could" not in shown()


TRIED = "tried, (not|and) kept"


@pytest.mark.parametrize("render", [everything, markdown.render, html.render])
def test_a_fix_that_was_tried_is_not_proposed_as_if_it_were_not(build, finding, render):
    def shown(*trials):
        found = msgspec.structs.replace(build(findings=[finding()]), trials=list(trials))
        told = render(found)
        return " ".join(told.split()).replace("Tried", "tried")

    declined = msgspec.structs.replace(KEPT, kept=False, why="declined: it is a stream (x): each")
    other = msgspec.structs.replace(declined, cause="small-file-random-io", why="slower")
    assert re.search("tried, not kept: declined[.*]* ", shown(other, declined).replace("<", " "))
    assert "tried, not kept: slower" in shown(other)
    assert "tried and kept" in shown(KEPT, declined)
    assert not re.search(TRIED, shown(msgspec.structs.replace(declined, fix="gc-freeze")))
    assert not re.search(TRIED, shown(msgspec.structs.replace(declined, tried=False)))
    assert not re.search(TRIED, shown())


def described(finding, cause, *summaries):
    """A finding whose fixes are named by their summaries."""
    one = finding(cause, text=f"about {cause}")
    fixes = [
        msgspec.structs.replace(one.fixes[0], fix=name, summary=f"do {name}") for name in summaries
    ]
    return msgspec.structs.replace(one, fixes=fixes)


@pytest.mark.parametrize("render", [everything, markdown.render, html.render])
def test_what_failed_its_trial_is_not_recommended_first(build, finding, render):
    spent = described(finding, "python-gc-pauses", "gc-freeze")
    rest = described(finding, "dataloader-no-workers", "loader-workers", "staged-data")

    def shown(**named):
        slower = {"kept": False, "why": "slower", **named}
        trials = [
            msgspec.structs.replace(KEPT, fix=name, cause=cause, **slower)
            for name, cause in (("gc-freeze", spent.cause), ("loader-workers", rest.cause))
        ]
        told = render(msgspec.structs.replace(build(findings=[spent, rest]), trials=trials))
        told = told[told.find('id="findings"') + 1 :].replace("about python\\-", "about python-")
        return " ".join(re.sub(r"<[^>]*>|[*`\\]", " ", told).split())

    first, last = (f"about {one.cause}" for one in (rest, spent))
    for harm in ({}, {"speedup": None, "why": "rolled back: it crashed", "harmful": True}):
        told = shown(**harm)
        assert told.index(first) < told.index(last)
        assert told.index("do staged-data") < told.index("do loader-workers")
        assert re.search(r"[Tt]ried[: ]+(loader-workers *: +)?do loader-workers", told)
        assert not re.search(r"[Ff]ix[: ]+(loader-workers *: +)?do loader-workers", told)
    for open_ in ({"speedup": None, "why": "declined: no evaluation ran"}, {"interrupted": True}):
        told = shown(**open_)
        assert told.index(last) < told.index(first)
        assert told.index("do loader-workers") < told.index("do staged-data")


def test_where_fixes_were_tried_the_first_one_is_no_advice(full):
    tried = msgspec.structs.replace(full, trials=[ONCE])
    untried = msgspec.structs.replace(full, trials=[])
    for render in (everything, html.render):
        assert "irst fix:" in render(untried)
        assert "irst fix:" not in render(tried)


@pytest.mark.parametrize("render", [everything, html.render])
def test_fixes_that_were_not_measured_together_are_no_number(fixed, render):
    found = fixed()
    untold = msgspec.structs.replace(found.detail.fixed, speedup=None, low=None, high=None)
    detail = msgspec.structs.replace(found.detail, fixed=untold)
    shown = " ".join(render(msgspec.structs.replace(found, detail=detail)).split())
    assert "1 fix kept: loader-workers; not measured together" in shown


UNTOLD = msgspec.structs.replace(
    KEPT, kept=False, untold=True, speedup=0.76, low=0.22, high=2.64, pairs=4, why="no gain"
)


@pytest.mark.parametrize("render", [everything, markdown.render, html.render])
def test_what_could_not_be_told_is_no_number(full, render):
    def shown(trial):
        return " ".join(render(msgspec.structs.replace(full, trials=[trial])).split())

    assert "inconclusive: 0.22× to 2.64× as fast" in shown(UNTOLD).replace("x", "×")
    assert "0.76" not in shown(UNTOLD)
    assert "0.76" in shown(msgspec.structs.replace(UNTOLD, untold=False))
    wild = msgspec.structs.replace(UNTOLD, low=0.01, high=9.0)
    assert "4 pairs vary too much" in shown(wild)
    assert "4 pairs vary too much" in shown(msgspec.structs.replace(wild, low=None, high=None))


def test_what_could_not_be_told_speaks_only_against_what_it_rules_out(build, finding):
    spent = described(finding, "python-gc-pauses", "gc-freeze")
    rest = described(finding, "dataloader-no-workers", "staged-data")
    own = msgspec.structs.replace(UNTOLD, fix="gc-freeze", cause=spent.cause)
    found = build(findings=[spent, rest])
    for trial, order in (
        (own, [spent, rest]),
        (msgspec.structs.replace(own, low=0.96, high=1.04), [rest, spent]),
    ):
        assert order_findings(msgspec.structs.replace(found, trials=[trial])) == order


@pytest.mark.parametrize("render", [everything, markdown.render, html.render])
def test_what_the_verdict_is_about_comes_first(build, finding, render):
    dear = described(finding, "python-gc-pauses", "gc-freeze")
    meant = described(finding, "dataloader-no-workers", "loader-workers")
    found = msgspec.structs.replace(build(findings=[dear, meant]), trials=[])
    about = msgspec.structs.replace(found.verdict, cause=meant.cause)

    def shown(diagnosis):
        told = " ".join(re.sub(r"<[^>]*>|[*`\\]", " ", render(diagnosis)).split())
        told = told.replace("First fix: ", "first fix: ")
        return told.find("about dataloader"), told.find("about python"), told

    workers, collector, told = shown(msgspec.structs.replace(found, verdict=about))
    assert workers < collector
    assert render is markdown.render or "first fix: do loader-workers" in told
    workers, collector, told = shown(found)
    assert collector < workers
    assert render is markdown.render or "first fix: do gc-freeze" in told
