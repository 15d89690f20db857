"""The command line and the running of scripts, with real processes and made outcomes."""

import sys

import pytest

from field.app import main
from field.measure import THREAD_CLOCK
from field.processes import JobError, run_job
from field.watch import Outcome, Outcomes, Said


def test_a_report_of_kept_outcomes_is_printed(tmp_path, capsys):
    said = Said(
        cause="any-cause",
        headline="h",
        places=("norms_every_step.py:20: numbers = p.grad.norm().item()",),
        removal=(1.27, 1.2, 1.4),
        promised=1.3,
    )
    kept = Outcomes(tmp_path)
    kept.save(Outcome(job="norms_every_step", source="old", found=(said,)))
    assert kept.load("norms_every_step") == Outcome(
        job="norms_every_step", source="old", found=(said,)
    )
    assert main(["report", "--half", "known", "--results", str(tmp_path)]) == 0
    page = capsys.readouterr().out
    assert "1 outcomes are of another version" in page
    assert "| norms_every_step |" in page


def test_a_script_that_fails_is_an_error_with_its_words(tmp_path):
    (tmp_path / "job.py").write_text("raise ValueError('broken')\n", "utf-8")
    with pytest.raises(JobError, match=r"ended with 1(.|\n)*broken"):
        run_job([sys.executable, "job.py"], tmp_path)


def test_thread_seconds_leave_out_sleep_and_other_work(tmp_path):
    script = "\n".join(
        [
            "import time",
            "start = time.perf_counter()",
            "time.sleep(0.5)",
            "total = sum(range(100_000))",
            "print('total', total)",
            "print(f'took {time.perf_counter() - start:.2f} s')",
        ]
    )
    (tmp_path / "job.py").write_text(script, "utf-8")
    wall = run_job([sys.executable, "job.py"], tmp_path)
    thread = run_job([sys.executable, str(THREAD_CLOCK), "job.py"], tmp_path)
    assert thread.results == wall.results
    assert thread.loop_s < 0.4 < wall.loop_s
