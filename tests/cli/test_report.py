"""`whyidle report`: what was stored comes back byte for byte."""

from __future__ import annotations

from pathlib import Path

import pytest

from whyidle.__main__ import main


def test_json_of_a_stored_run_is_byte_identical(trace: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["explain", str(trace), "--json", "first.json", "-q"]) == 0
    for name in ("last", "first.json"):
        assert main(["report", name, "--json", "-"]) == 0
        assert capsys.readouterr().out.encode() == Path("first.json").read_bytes()


def test_every_form(trace: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["explain", str(trace), "-q"]) == 0
    assert main(["report", "--html", "w.html", "--markdown", "-"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("###")
    assert "wrote w.html" in err
    assert Path("w.html").read_text().startswith("<!")


def test_the_report_holds_everything(trace: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["explain", str(trace), "--all"]) == 0
    first = capsys.readouterr().out
    assert main(["report", "last"]) == 0
    assert capsys.readouterr().out.split("\n  next\n")[0] == first.split("\n  next\n")[0]


@pytest.mark.parametrize(
    ("name", "said"),
    [("last", "holds no runs"), ("20990101", "no run"), ("trace.json.gz", "whyidle explain")],
)
def test_what_is_not_there(name: str, said: str, trace: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["report", name]) == 1
    assert said in capsys.readouterr().err
