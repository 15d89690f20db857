from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from whyidle.engine.search.ledger import (
    LEDGER,
    Ended,
    Ledger,
    Opened,
    Reported,
    Started,
    check_setup,
    trials_to_retry,
)
from whyidle.engine.search.proposals import Proposals
from whyidle.engine.search.search_document import make_search
from whyidle.engine.search.search_state import replayed_proposals
from whyidle.errors import InputError, UsageError
from whyidle.model.search import Dimension, Report, SearchSetup, TrialVerdict, pareto_front

SETUP = SearchSetup(
    command=["train", "{lr}"],
    dimensions=[Dimension(name="lr", low=1e-5, high=0.1, log=True)],
    metric="loss: {}",
    direction="minimize",
)


@pytest.fixture
def ledger(tmp_path: Path):
    opened = Ledger(tmp_path / "s")
    opened.append(Opened(setup=SETUP, whyidle="1", trials=20))
    yield opened
    opened.close()


def write_trial(
    ledger: Ledger, proposals: Proposals, values: dict[str, float] | None, *losses: float
) -> None:
    """A trial that reports some losses, one a second; ``values``: a retry."""
    number = len(ledger.trials)
    retry_of = None if values is None else number - 1
    values = values or proposals.propose_values()  # type: ignore[assignment]
    ledger.append(Started(number=number, values=values, retry_of=retry_of))  # type: ignore[arg-type]
    proposals.start_trial(number, values)  # type: ignore[arg-type]
    for step, loss in enumerate(losses, 1):
        report = Report(step=step, value=loss, seconds=float(step))
        ledger.append(Reported(number=number, report=report))
        proposals.judge_report(number, report)


def end_trial(ledger: Ledger, proposals: Proposals, hours: float = 1.0) -> None:
    number = ledger.trials[-1].number
    ledger.append(Ended(number=number, ending="complete", seconds=4.0, gpu_hours=hours))
    proposals.end_trial(ledger.trials[-1])


def test_a_line_that_was_cut_off_is_removed_and_its_trial_runs_again(tmp_path: Path, ledger):
    write_trial(ledger, Proposals(SETUP), None, 1.0, 0.5)
    ledger.close()
    path = tmp_path / "s" / LEDGER
    path.write_bytes(path.read_bytes()[:-7])
    again = Ledger(tmp_path / "s")
    assert again.setup == SETUP
    assert [report.value for report in again.trials[0].reports] == [1.0]
    assert again.close_running() == [0]
    assert again.trials[0].ending == "lost"
    assert [trial.number for trial in trials_to_retry(again.trials)] == [0]
    again.append(Started(number=1, values=again.trials[0].values, retry_of=0))
    assert trials_to_retry(again.trials) == []
    ledger._file = again._file  # closed by the fixture


@pytest.mark.parametrize("objective", ["metric", "front", "rate"])
def test_a_replayed_search_proposes_what_it_would_have_proposed(tmp_path: Path, objective):
    setup = msgspec.structs.replace(SETUP, objective=objective)
    ledger = Ledger(tmp_path / "one")
    ledger.append(Opened(setup=setup, whyidle="1", trials=20))
    proposals = Proposals(setup)
    for number in range(11):
        write_trial(ledger, proposals, None, 3.0, 2.0 + number % 4, 1.0 + number % 3)
        end_trial(ledger, proposals, 1.0 + number % 2)
    expected = [proposals.propose_values() for _ in range(2)]
    again = replayed_proposals(ledger)
    assert [again.propose_values() for _ in range(2)] == expected
    assert again.propose_values() not in expected
    ledger.close()


def test_a_trial_far_behind_is_ended_early(ledger):
    proposals = Proposals(SETUP)
    for _ in range(4):
        write_trial(ledger, proposals, None, 3.0, 2.0, 1.0)
        end_trial(ledger, proposals)
    write_trial(ledger, proposals, None)
    judge = proposals.judge_report
    assert not judge(4, Report(step=1, value=9.0, seconds=1.0))
    assert judge(4, Report(step=2, value=9.0, seconds=2.0))


def test_only_one_process_has_it_open(tmp_path: Path, ledger):
    with pytest.raises(UsageError, match="is running"):
        Ledger(tmp_path / "s")


def test_other_files_and_other_searches_are_refused(tmp_path: Path, ledger):
    (tmp_path / "x").mkdir()
    (tmp_path / "x" / LEDGER).write_text("{}\n")
    with pytest.raises(InputError, match="is no ledger"):
        Ledger(tmp_path / "x")
    check_setup(ledger, SETUP)
    with pytest.raises(UsageError, match="not the same metric"):
        check_setup(ledger, msgspec.structs.replace(SETUP, metric="acc: {}"))


def test_values_are_not_tried_twice(tmp_path: Path):
    dimension = Dimension(name="lr", choices=[1, 2, 3])
    proposals = Proposals(msgspec.structs.replace(SETUP, dimensions=[dimension]))
    seen = []
    while not proposals.is_exhausted:
        seen.append(proposals.propose_values()["lr"])
        proposals.start_trial(len(seen), {"lr": seen[-1]})
    assert sorted(seen) == [1, 2, 3]


def test_the_front_and_the_best(ledger):
    proposals = Proposals(SETUP)
    for loss, hours in ((0.5, 1.0), (0.4, 3.0), (0.6, 2.0), (0.3, 4.0)):
        write_trial(ledger, proposals, None, loss)
        end_trial(ledger, proposals, hours)
    search = make_search(ledger)
    assert search.best == 3
    assert search.front == pareto_front(ledger.trials, "minimize") == [0, 1, 3]
    assert pareto_front(ledger.trials, "maximize") == [0, 2]


@pytest.mark.parametrize(("bucket", "told"), [("input", True), ("interruption", False)])
def test_only_trials_that_wait_for_data_compare_data_pipelines(ledger, bucket: str, told: bool):
    write_trial(ledger, Proposals(SETUP), None, 0.5)
    verdict = TrialVerdict(
        state="starved", headline="", cause="x", device="cpu", devices=1, waits={bucket: 0.7}
    )
    ledger.append(Ended(number=0, ending="complete", seconds=4.0, verdict=verdict))
    assert any("data pipelines" in note for note in make_search(ledger).notes) is told
