"""Which cases are healed as a sample."""

import sys

from clinic.card import GIVEN, cases
from clinic.typed import command, has_framework
from clinic.verbs._chosen import drawn, installed

JOBS = [(case, mode) for case in cases(3) for mode in case.modes if not case.recording]


def test_cures_that_need_consent_are_in_no_sample():
    assert any(case.consent not in GIVEN for case, _ in JOBS)
    assert all(case.consent in GIVEN for case, _ in drawn(JOBS, 3))


def test_cases_of_a_missing_framework_are_left_out_with_a_reason(monkeypatch, tmp_path, capsys):
    waves = next(case for case in cases() if case.workload == "waves")
    torch = next(case for case in cases() if case.workload == "rows")
    python = tmp_path / "python"
    for status in (1, 0):
        python.write_text(f"#!/bin/sh\nexit {status}\n")
        python.chmod(0o755)
        monkeypatch.setenv("WHYIDLE_PYTHON_JAX", str(python))
        has_framework.cache_clear()
        jobs = [(waves, "cpu"), (torch, "cpu")]
        assert installed(jobs) == jobs[status:]
    assert f"{waves.id} need jax: WHYIDLE_PYTHON_JAX" in capsys.readouterr().err
    assert command(waves.arm(), "cpu", 1.0, "steps")[0] == str(python)
    assert command(torch.arm(), "cpu", 1.0, "steps")[0] == sys.executable
