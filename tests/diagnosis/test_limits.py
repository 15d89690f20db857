"""`--steps` and `--stop-after`: counted in steps of the job, whatever it is made of."""

import json
import signal
import subprocess
import sys
import textwrap

import pytest
from own_sgd import OWN_SGD

pytest.importorskip("torch")

pytestmark = pytest.mark.real_processes("a job is ended while it runs")

TRAIN = """
    import signal, sys

    heard = signal.default_int_handler  # which a shell takes from what runs in its background
    signal.signal(signal.SIGINT, signal.SIG_IGN if "deaf" in sys.argv else heard)
    torch.set_num_threads(1)
    models = [torch.nn.Linear(8, 8) for _ in range(2)]
    both = [SGD(model.parameters(), lr=0.1) for model in models]
    done = 0
    try:
        for step in range(60):
            for model, optimizer in zip(models, both):
                model(torch.randn(4, 8)).sum().backward()
                optimizer.step()
            done += 1
    except KeyboardInterrupt:
        print("saved at", done, flush=True)
        raise SystemExit(5)
    print("all", done)
"""


def watch(tmp_path, *options, words=()):
    script = tmp_path / "train.py"
    script.write_text(OWN_SGD + textwrap.dedent(TRAIN))
    command = [sys.executable, "-m", "whyidle", "run", "--store", str(tmp_path / "store")]
    done = subprocess.run(
        [*command, *options, str(script), *words],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    (run,) = (tmp_path / "store" / "runs").iterdir()
    return done, json.loads((run / "diagnosis.json").read_text())


def test_watching_ends_and_the_job_goes_on(tmp_path):
    done, diagnosis = watch(tmp_path, "--steps", "20")
    assert (done.returncode, done.stdout) == (0, "all 60\n")
    steps = diagnosis["steps"]
    assert 0 < steps["count"] + steps["warmup"] <= 2 * 20 + 1  # of either optimizer


def test_the_job_ends_at_a_step_as_by_ctrl_c(tmp_path):
    done, _ = watch(tmp_path, "--stop-after", "20")
    assert (done.returncode, done.stdout) == (5, "saved at 19\n")


def test_a_job_that_ignores_ctrl_c_is_terminated(tmp_path):
    done, _ = watch(tmp_path, "--stop-after", "20", words=["deaf"])
    assert done.returncode == 128 + signal.SIGTERM


@pytest.mark.parametrize("words", [["--steps", "0"], ["--interval", "0"], ["--stop-after", "x"]])
def test_what_cannot_be_meant_is_refused(tmp_path, words):
    command = [sys.executable, "-m", "whyidle", "run", *words, "true"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=60, check=False)
    assert done.returncode == 2
