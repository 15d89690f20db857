"""`whyidle history`."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path

import msgspec
import pytest

from imagined_jobs import healthy
from whyidle.__main__ import main
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.store.run_store import Store

SECONDS = (0.100, 0.102, 0.099, 0.101, 0.130, 0.131)


@pytest.fixture
def runs() -> list[str]:
    """Runs of a command, one a day until now, the last two slower."""
    told, store = diagnose_job([healthy().timeline()]), Store(Path(".whyidle"))
    now, ids = datetime.now(timezone.utc), []
    for number, seconds in enumerate(SECONDS):
        one = msgspec.structs.replace(
            told,
            run=msgspec.structs.replace(told.run, command=["python", "train.py", "--lr", "1"]),
            steps=msgspec.structs.replace(told.steps, mean_s=seconds),
        )
        days = len(SECONDS) - number
        ids.append(store.add_run(one, now=now - timedelta(days=days, hours=-1)).id)
    return ids


def test_the_run_at_which_it_became_slower_is_named(
    runs: list[str], capsys: pytest.CaptureFixture[str]
):
    assert main(["history", "train.py"]) == 0
    out = capsys.readouterr().out
    assert f"29% slower with the run {runs[4][:15]}" in " ".join(out.split())
    assert f"whyidle compare {runs[3]} {runs[4]}" in " ".join(out.split())
    assert all(len(line) <= 80 for line in out.splitlines())
    assert out.isascii()


def test_json_and_html(runs: list[str], capsys: pytest.CaptureFixture[str]):
    assert main(["history", "--json", "-", "--html", "h.html", "train.py", "--lr", "1"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "whyidle/history/1"
    assert [row["run"] for row in document["rows"]] == runs
    assert [change["run"] for change in document["changes"]] == [runs[4]]
    page = Path("h.html").read_text()
    assert runs[4] in page
    assert page.count('class="bar thin"') == len(runs)


def test_the_gate(runs: list[str], capsys: pytest.CaptureFixture[str]):
    assert main(["history", "--fail-if-slower", "train.py"]) == 3
    assert main(["runs", "delete", runs[5], runs[4]]) == 0
    assert main(["history", "--fail-if-slower", "train.py"]) == 0


@pytest.mark.usefixtures("runs")
def test_a_period(capsys: pytest.CaptureFixture[str]):
    assert main(["history", "--since", "3d", "--json", "-", "train.py"]) == 0
    assert len(json.loads(capsys.readouterr().out)["rows"]) == 3
    assert main(["history", "--until", "3d", "--json", "-", "train.py"]) == 0
    assert len(json.loads(capsys.readouterr().out)["rows"]) == 3


@pytest.mark.parametrize(
    ("words", "status", "text"),
    [
        ([], 2, "No command was given"),
        (["other.py"], 1, "no diagnosed run of other.py"),
        (["--since", "yesterday", "train.py"], 2, "must be a time"),
        (["--html", "nowhere/h.html", "train.py"], 1, "no folder nowhere"),
    ],
)
@pytest.mark.usefixtures("runs")
def test_bad_input(words: list[str], status: int, text: str, capsys: pytest.CaptureFixture[str]):
    assert main(["history", *words]) == status
    assert text in capsys.readouterr().err
