"""`whyidle runs`."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from whyidle.__main__ import main
from whyidle.engine.diagnose import diagnose
from whyidle.model.diagnosis import FixedJob
from whyidle.store.document import read_diagnosis
from whyidle.store.runs import Store
from whyidle.testing.jobs import healthy


@pytest.fixture
def two(trace: Path, fixed: Path) -> None:
    for path in (trace, fixed):
        assert main(["explain", str(path), "-q"]) == 0


def listed(capsys: pytest.CaptureFixture[str]) -> list[dict[str, object]]:
    capsys.readouterr()
    assert main(["runs", "--json", "-"]) == 0
    rows: list[dict[str, object]] = json.loads(capsys.readouterr().out)
    return rows


def test_an_empty_store_says_how_to_fill_it(capsys: pytest.CaptureFixture[str]):
    assert main(["runs"]) == 0
    assert "whyidle explain TRACE" in capsys.readouterr().out
    assert not Path(".whyidle").exists()


@pytest.mark.usefixtures("two")
def test_list_delete_pin_export(capsys: pytest.CaptureFixture[str]):
    rows = listed(capsys)
    assert [Path(str(row["path"])).name for row in rows] == [row["id"] for row in rows]
    assert main(["runs", "pin", "last~1"]) == 0
    assert main(["runs", "delete", "last~1"]) == 1
    assert "runs unpin" in capsys.readouterr().err
    assert main(["runs", "delete", "last"]) == 0
    assert [row["pinned"] for row in listed(capsys)] == [True]
    assert main(["runs", "export", "last", "out.json"]) == 0
    assert json.loads(Path("out.json").read_text())["schema"] == "whyidle/diagnosis/1"
    assert main(["runs", "unpin", "last"]) == 0
    assert main(["runs", "delete", "last"]) == 0
    assert listed(capsys) == []


def test_a_fixed_job_is_listed_as_such(capsys: pytest.CaptureFixture[str]):
    """It is compared with what it became, which is stored before it, and not the other way."""
    store = Store(Path(".whyidle"))
    after = diagnose([healthy().timeline()])
    became = store.add(after).id
    fixed = FixedJob(
        run=became,
        attribution=after.attribution,
        state=after.verdict.state,
        headline=after.verdict.headline,
        speedup=2.5,
        low=2.0,
        high=3.0,
    )
    detail = msgspec.structs.replace(after.detail, fixed=fixed)
    store.add(msgspec.structs.replace(after, detail=detail))
    assert main(["runs"]) == 0
    shown = " ".join(capsys.readouterr().out.split())
    assert f"fixed, 2.50x as fast; it was {after.verdict.state}" in shown
    assert f"whyidle compare last {became}" in shown


@pytest.mark.usefixtures("two")
def test_a_broken_entry_is_listed_as_such(capsys: pytest.CaptureFixture[str]):
    rows = listed(capsys)
    (Path(str(rows[0]["path"])) / "meta.json").write_text("{broken")
    assert main(["runs"]) == 0
    out = capsys.readouterr().out
    assert "cannot be read" in out
    assert "2 runs" in out


@pytest.mark.parametrize("words", [["delete"], ["export", "last"], ["pin"], ["list", "x"]])
def test_missing_names(words: list[str], capsys: pytest.CaptureFixture[str]):
    assert main(["runs", *words]) == 2
    assert f"whyidle runs {words[0]}" in capsys.readouterr().err


@pytest.mark.usefixtures("two")
def test_a_watched_command_is_listed_by_its_words(capsys: pytest.CaptureFixture[str]):
    (explained, _), store = listed(capsys), Store(Path(".whyidle"))
    entry = store.begin(["python", "train.py", "--name", "my run"])
    assert main(["runs"]) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "not diagnosed yet (python train.py --name 'my run')" in out
    told = read_diagnosis(Path(str(explained["path"])) / "diagnosis.json")
    several = msgspec.structs.replace(told.run, job="train.py --lr 1 (process 12)")
    store.complete(entry, msgspec.structs.replace(told, run=several))
    assert main(["runs"]) == 0
    assert "(train.py --lr 1 (process 12))" in " ".join(capsys.readouterr().out.split())
