"""What every executor must hold to."""

from pathlib import Path

import pytest

from whyidle import catalog
from whyidle.fix.arms.arm import ArmRequest
from whyidle.fix.arms.process_report import lead_report, read_reports
from whyidle.fix.executor import FOLDER
from whyidle.fix.patching.source_patch import KeptFix, make_patch
from whyidle.model.diagnosis import Edit
from whyidle.record.recording_diagnosis import diagnose_recording

pytestmark = [
    pytest.mark.usefixtures("untouched"),
    pytest.mark.filterwarnings("ignore:::ray"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),  # of Ray's own sockets and files
]
each_executor = pytest.mark.parametrize("name", catalog.plugin_names(FOLDER))
ENOUGH = ArmRequest(steps=12, seconds=0.1, patience_s=60.0)


@each_executor
def test_an_arm_runs_as_it_was_typed_but_for_knobs_and_seeds_are_alike(name, start, place, job):
    engine = start(name)
    threads = Edit(knob="torch.num_threads", value=3)
    base = engine.run_arm(ENOUGH, place("base"))
    assert base.ending == "stopped", base.output_end
    assert base.is_comparable
    assert len(base.report.losses) == len(base.report.marks) >= 12
    assert base.output_end.startswith(f"{job} by its owner")
    treated = engine.run_arm(ArmRequest((threads,), 12, 0.1, patience_s=60.0), place("treated"))
    assert treated.applied == {"torch.num_threads": 1}
    assert base.report.losses[:12] == treated.report.losses[:12]


@each_executor
def test_what_was_watched_can_be_read_here(name, start, place):
    ran = start(name).run_arm(
        ArmRequest(seconds=0.5, profile=True, patience_s=60.0), place("watched")
    )
    assert ran.recording == Path(ran.recording.parent, "recording")
    assert lead_report(read_reports(ran.recording)).marks == ran.report.marks
    assert list(ran.recording.glob("*.spans"))
    assert "host_telemetry" in diagnose_recording(ran.recording).coverage.signals


@each_executor
def test_a_job_that_crashes_says_so(name, start, place):
    ran = start(name, "no such option").run_arm(ENOUGH, place("crash"))
    assert ran.ending == "crashed"
    assert "ValueError: no such option" in ran.output_end
    assert not ran.is_comparable


@each_executor
def test_a_patch_runs_in_copies(name, start, place, job):
    edit = Edit(knob="loader.pin_memory", value=True)
    patch = make_patch([KeptFix("pinned-copies", [edit], [])], ["python", "train.py"], job, "cuda")
    assert "pin_memory=True" in patch.diff
    ran = start(name).run_arm(
        ArmRequest(steps=12, seconds=0.1, patience_s=60.0, patch=patch), place("patched")
    )
    assert ran.is_comparable, ran.output_end
    assert not ran.output_end.startswith(f"{job} ")


@each_executor
def test_it_tells_in_sentences(name, start):
    assert all(note.endswith(".") for note in start(name).executor_notes())
