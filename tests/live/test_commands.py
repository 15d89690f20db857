"""Commands that do not train, or cannot be run at all."""

import pytest


def test_a_command_that_does_not_train_is_left_alone(watching):
    done = watching.run(watching.env["PYTHON"], "-c", "print('hello')")
    assert (done.returncode, done.stdout) == (0, "hello\n")
    assert "INCONCLUSIVE: No training step was seen: no process of the command" in done.stderr
    assert watching.diagnosis()["verdict"]["state"] == "inconclusive"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "The command is missing"),
        (("--",), "The command is missing"),
        (("no-such-program",), "Cannot run no-such-program"),
    ],
)
def test_what_cannot_be_run_is_a_usage_error_and_no_run(watching, words, said):
    done = watching.run(*words)
    assert done.returncode == 2
    assert said in done.stderr
    assert not list(watching.store.glob("runs/*"))


def test_a_command_that_fails_before_it_trains_is_listed_and_is_not_the_last(watching):
    def report():
        return watching.alone(*watching.whyidle("report"), "--json", "-")

    python = watching.env["PYTHON"]
    watching.run(python, "-c", "print('hello')")
    before = report()
    done = watching.run(python, "-c", "raise SystemExit(3)")
    assert done.returncode == 3
    after = report()
    assert after.stdout == before.stdout
    assert "failed before anything was measured" in after.stderr
    assert "failed" not in before.stderr
    rows = watching.alone(*watching.whyidle("runs")).stdout.splitlines()
    verdicts = [row.split()[3] for row in rows if row.startswith("20")]
    assert verdicts == ["failed", "inconclusive"]  # the newest first
