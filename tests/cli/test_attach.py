"""`whyidle attach`."""

from __future__ import annotations

import pytest

from whyidle.__main__ import main


@pytest.mark.parametrize("words", [["x"], ["0"], ["-3"], ["4711", "--seconds", "1"], []])
def test_wrong_arguments(words: list[str], capsys: pytest.CaptureFixture[str]):
    assert main(["attach", *words]) == 2
    assert "Traceback" not in capsys.readouterr().err


def test_a_process_that_does_not_exist(capsys: pytest.CaptureFixture[str]):
    assert main(["attach", str(2**22 + 5)]) == 1
    assert "There is no process" in capsys.readouterr().err
