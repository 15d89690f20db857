"""The command line and the running of scripts, with real processes and made outcomes."""

import sys

import pytest

from field.measure import THREAD_CLOCK
from field.processes import JobError, run_job


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
