"""`whyidle doctor`."""

from __future__ import annotations

import json

import pytest

from whyidle.__main__ import main


def test_looks_and_says(capsys: pytest.CaptureFixture[str]):
    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert all(word in out for word in ("software", "gpu", "host", "storage", "Python", "/dev/shm"))


def test_json(capsys: pytest.CaptureFixture[str]):
    assert main(["doctor", "--json", "-"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["schema"] == "whyidle/doctor/1"
    gaps = [check for check in document["checks"] if check["state"] == "gap"]
    assert all(check["means"] for check in gaps)
