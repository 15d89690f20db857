"""Commands in which no training step was seen are diagnosed from what the system shows."""

import pytest
from imagined import BEGIN, MS, Imagined, S, finding

from whyidle.diagnosis import stepless_run
from whyidle.errors import InputError
from whyidle.model.live import telemetry_lines
from whyidle.model.live.telemetry import Absent
from whyidle.record.recording_diagnosis import diagnose_jobs, note_end, recording_at
from whyidle.testing.contracts import check_bounds, check_round_trip

ASK = "/home/me/look.py(9): ask;/home/me/look.py(20): <module>"
HOST = {"cpu_user_s@pid7": (0.1, 0.0), "cores_effective": 8.0, "job_cpu_user_s": (0.1, 0.0)}


def test_a_process_that_only_waits(tmp_path):
    made = Imagined(tmp_path, argv=["look.py", "--all"], version="2.13.0")
    made.look(ASK, 10 * S, busy=0.0)
    made.seen()
    made.telemetry(HOST)
    told = made.diagnose(["python", "look.py"])
    check_bounds(told)
    check_round_trip(told)
    assert (told.verdict.state, told.verdict.bound) == ("inefficient", "unknown")
    said = "No training step was seen: look.py ran PyTorch 2.13.0 for 10 s without an optimizer"
    assert said in told.verdict.headline
    assert told.verdict.headline.startswith(told.findings[0].headline)
    assert told.steps.detected_by is None
    assert told.attribution.unknown == 1.0
    first = told.findings[0]
    assert (first.cause, first.bucket) == ("interactive-or-unreleased", "unknown")
    assert (first.where[0].line, first.where[0].function) == (9, "ask")
    assert any("whyidle.step()" in note for note in told.coverage.notes)


def test_a_process_that_works_is_not_called_idle(tmp_path):
    made = Imagined(tmp_path)
    made.look(ASK, 10 * S, busy=1.0)
    made.seen()
    made.telemetry(HOST)
    told = made.diagnose()
    assert told.findings == []
    assert told.verdict.state == "inconclusive"


def test_a_command_that_is_no_python(tmp_path):
    made = Imagined(tmp_path)
    made.telemetry(HOST, end=BEGIN + 20 * S)
    told = made.diagnose(["sleep", "20"])
    check_bounds(told)
    assert "no process of the command imported PyTorch, TensorFlow or JAX" in told.verdict.headline
    assert told.run.framework is None
    assert "host_telemetry" in told.coverage.signals


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["python3", "-I", "train.py"], "Python was started with -I"),
        (["mytool", "-S"], "no process of the command imported PyTorch, TensorFlow or JAX"),
    ],
)
def test_why_nothing_was_seen_is_said(tmp_path, command, why):
    made = Imagined(tmp_path)
    made.telemetry(HOST, end=BEGIN + 3 * S)
    assert why in made.diagnose(command).verdict.headline


def test_a_fault_of_ours_is_the_reason(tmp_path):
    (tmp_path / "7.faults").write_text("the probe did not start: OSError: gone\n")
    made = Imagined(tmp_path)
    made.telemetry(HOST, end=BEGIN + 3 * S)
    told = made.diagnose()
    assert "the probe did not start: OSError: gone" in told.verdict.headline


def test_without_telemetry_the_command_s_length_is_known(tmp_path):
    note_end(tmp_path, "imagined", ["true"], None)
    (tmp_path / "ended.json").write_text('{"id": "x", "command": ["true"], "duration_s": 2.0}')
    assert recording_at(tmp_path) == tmp_path
    (told,) = diagnose_jobs(tmp_path)
    assert told.verdict.state == "inconclusive"
    assert told.findings == []


def test_where_the_command_was_started_is_known(tmp_path, monkeypatch):
    (tmp_path / "home").mkdir()
    monkeypatch.chdir(tmp_path / "home")
    made = Imagined(tmp_path)
    made.telemetry(HOST, end=BEGIN + 3 * S)
    assert made.diagnose().run.folder == str(tmp_path / "home")


def test_a_folder_that_cannot_be_written_costs_what_is_known_of_the_end(tmp_path):
    note_end(tmp_path / "gone", "imagined", ["true"], None)
    assert not list(tmp_path.iterdir())


def test_an_empty_folder_is_no_recording(tmp_path):
    with pytest.raises(InputError, match="no training step was seen"):
        diagnose_jobs(tmp_path)


def test_a_launcher_that_had_the_framework_is_no_job_beside_one_that_trains(tmp_path):
    launcher = Imagined(tmp_path, argv=["torchrun"])
    launcher.look(ASK, 10 * S, busy=0.0)
    launcher.seen()
    (tmp_path / "8").mkdir()
    for path in list(tmp_path.glob("*.*")):
        path.rename(tmp_path / f"8.{path.name.partition('.')[2]}")
    made = Imagined(tmp_path)
    for _ in range(20):
        made.step(20 * MS)
    made.trained()
    told = made.diagnose()
    assert told.steps.count > 10
    assert finding(told, "interactive-or-unreleased") is None


def test_of_several_processes_the_one_that_had_the_framework_longest_is_told_of(tmp_path):
    for number, seconds in (("8", 4), ("9", 30), ("10", 10)):
        made = Imagined(tmp_path, argv=[f"{number}.py"], pid=int(number), version="2.13.0")
        made.look(ASK, seconds * S, busy=0.0)
        made.seen()
        own = made.recorder._key
        for path in list(tmp_path.glob(f"{own}.*")):
            path.rename(tmp_path / f"{number}.{path.name.partition('.')[2]}")
    told = made.diagnose(["sh", "all.sh"])
    assert "9.py ran PyTorch 2.13.0 for 30 s" in told.verdict.headline


@pytest.mark.parametrize(
    ("took", "status", "hinted"), [(0.2, 2, False), (20, 2, True), (1, 0, True)]
)
def test_a_command_that_failed_at_once_gets_no_advice_about_the_probe(
    took, status, hinted, tmp_path
):
    told = {"command": ["python", "nope.py"], "exit_status": status, "duration_s": took}
    timeline = stepless_run.whole_run(tmp_path, told, None, [])
    assert timeline is not None
    assert (f"status {status}" in timeline.stepless.reason) == bool(status)
    assert bool(stepless_run.advise_no_steps(timeline)) == hinted


@pytest.mark.parametrize(
    ("died_of", "said", "hinted"),
    [("NameError: name 'modle' is not defined", True, False), ("KeyboardInterrupt: ", False, True)],
)
def test_an_error_before_the_first_step_is_told_as_the_reason(died_of, said, hinted, tmp_path):
    made = Imagined(tmp_path, argv=["train.py"], version="2.13.0")
    made.look(ASK, 2 * S)
    made.facts["died_of"] = died_of
    made.seen()
    told = made.diagnose()
    assert told.verdict.headline.endswith(f"seen: train.py ended by {died_of}") == said
    assert any("whyidle.step()" in note for note in told.coverage.notes) == hinted


def test_a_process_that_ended_before_anybody_looked_is_known_by_its_own_word(tmp_path):
    made = Imagined(tmp_path, argv=["train.py"], version="2.13.0")
    made.now += 30 * MS
    made.seen()
    headline = made.diagnose().verdict.headline
    assert "train.py ran PyTorch 2.13.0 for 0.03 s without an optimizer step" in headline


def test_a_process_beside_what_ran_for_long_is_told_as_that(tmp_path):
    made = Imagined(tmp_path, argv=["-c"], version="2.13.0")
    made.now += 30 * MS
    made.seen()
    (tmp_path / "ended.json").write_text('{"id": "x", "command": ["sh"], "duration_s": 20.0}')
    (told,) = diagnose_jobs(tmp_path)
    headline = told.verdict.headline
    assert headline.endswith("step; other processes of the 20 s run did not load the probe")
    assert any("replaces PYTHONPATH" in note for note in told.coverage.notes)
    assert not any("whyidle.step()" in note for note in told.coverage.notes)


def test_of_a_command_without_a_step_nothing_is_said_twice(tmp_path):
    made = Imagined(tmp_path)
    made.telemetry(HOST, end=BEGIN + 20 * S)
    told = made.diagnose(["sleep", "20"])
    assert not [note for note in told.coverage.notes if "no step boundary" in note]


@pytest.mark.parametrize("built", [None, "12.4"])
def test_gpus_that_nobody_expects_are_not_missed(built, tmp_path):
    made = Imagined(tmp_path, cuda_built=built)
    made.look(ASK, 10 * S)
    made.seen()
    made.telemetry(HOST)
    gone = {"busy_ratio": Absent("NVML does not start", "check that `nvidia-smi` works")}
    with (tmp_path / "telemetry.jsonl").open("ab") as file:
        file.write(telemetry_lines.source_line("nvml", {}, gone))
    notes = made.diagnose().coverage.notes
    assert any("GPUs could not be read" in note for note in notes) == (built is not None)
