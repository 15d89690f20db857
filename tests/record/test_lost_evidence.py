"""Evidence that could not be written is told with the reason."""

import errno

import pytest
from imagined import BEGIN, Imagined, S

from whyidle.errors import OutputError
from whyidle.record import recording_diagnosis


@pytest.mark.parametrize(
    ("refused", "full"),
    [(errno.ENOSPC, True), (errno.EDQUOT, True), (errno.EACCES, False), (None, False)],
)
def test_a_disk_is_full_where_a_block_does_not_fit(refused, full, tmp_path, monkeypatch):
    def refuse(*_, **__):
        raise OSError(refused, "imagined")

    if refused is not None:
        monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    assert recording_diagnosis.is_disk_full(tmp_path) == full
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("note", "why"),
    [
        ("writing: OSError: [Errno 28] No space left on device\n", "No space left on device"),
        ("", "Nothing more could be written"),
    ],
)
def test_a_command_whose_steps_could_not_be_written_is_not_said_to_have_none(tmp_path, note, why):
    made = Imagined(tmp_path, argv=["train.py"], torch="2.13.0")
    made.seen()
    made.telemetry({"cores_effective": 8.0}, end=BEGIN + 20 * S)
    (tmp_path / "7.faults").write_text(note)
    with pytest.raises(OutputError, match="could not be written") as refused:
        made.diagnose(["python", "train.py"])
    assert why in refused.value.why
    assert str(tmp_path) in refused.value.why


def test_a_fault_that_could_not_be_noted_is_told_where_steps_were_seen(tmp_path):
    made = Imagined(tmp_path)
    for _ in range(10):
        made.step()
    made.trained()
    (tmp_path / "7.faults").write_text("")
    notes = made.diagnose(["python", "train.py"]).coverage.notes
    assert [note for note in notes if recording_diagnosis.UNTOLD in note]


def test_another_fault_is_no_lost_evidence(tmp_path):
    made = Imagined(tmp_path, argv=["train.py"], torch="2.13.0")
    made.look("/home/me/train.py(9): ask", 10 * S, busy=0.0)
    made.seen()
    (tmp_path / "7.faults").write_text("gc: ValueError: a planted fault\n")
    notes = made.diagnose(["python", "train.py"]).coverage.notes
    assert not [note for note in notes if recording_diagnosis.UNTOLD in note]


def test_a_recording_that_ended_for_the_job_s_sake_is_no_failure(tmp_path):
    made = Imagined(tmp_path)
    for _ in range(10):
        made.step()
    made.trained()
    (tmp_path / "7.faults").write_text(
        "recording quota reached: QuotaReachedError: 1,024 MiB were recorded of one process\n"
    )
    notes = made.diagnose(["python", "train.py"]).coverage.notes
    told = "The recording ended before the job: 1,024 MiB were recorded of one process."
    assert told in notes
