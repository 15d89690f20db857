"""What turns the knobs: it counts, tells, contains faults, and turns everything back."""

import gc
import json
import os
from pathlib import Path

import pytest
import small_jobs as jobs
import standin
import torch

from whyidle.probe import knobs
from whyidle.probe.core.events import Events
from whyidle.probe.core.recorder import Recorder
from whyidle.probe.knobs import matmul


def told(session, pid=None):
    return json.loads((Path(session.folder) / f"{pid or os.getpid()}.knobs.json").read_text())


def test_a_knob_without_such_a_form_says_so(turn):
    session = turn({"callbacks.every": 10, "profiler.active": True})
    assert told(session)["declined"] == dict.fromkeys(session.edits, knobs.NO_FORM)


def test_variables_are_set_by_whoever_starts_the_command(turn):
    session = turn({"env.OMP_NUM_THREADS": "1"})
    assert session.applied == session.declined == {}


def test_a_fault_while_a_knob_is_turned_takes_back_what_it_did(turn, faults, monkeypatch):
    def broken(session, edits):
        session.replace_function(torch, "save", knobs.do_nothing)
        raise ZeroDivisionError("a planted fault")

    monkeypatch.setattr(matmul, "apply", broken)
    before = torch.save
    session = turn({"matmul.precision": "high", "autograd.anomaly_mode": False})
    assert torch.save is before
    assert session.declined == {"matmul.precision": "ZeroDivisionError: a planted fault"}
    assert "a planted fault" in faults(session)[0]
    assert len(session.undo) == 1  # the other one stands


FOREIGN = """
import torch

def apply(session, settings):
    session.replace_function(torch, "save", lambda original: lambda *_: settings)
"""


def test_a_file_of_another_package_sets_its_knobs_together(turn, tmp_path):
    path = tmp_path / "torch.py"  # hides nothing, whatever it is called
    path.write_text(FOREIGN)
    edits = {"naps.length": 2, "loader.naps": True}
    turn(edits, implementations=dict.fromkeys(edits, str(path)))
    assert torch.save() == edits


@pytest.mark.parametrize("fault", ["1 / 0", "raise SystemError", "import no_such_module"])
def test_a_fault_in_a_file_of_another_package_is_contained(turn, faults, tmp_path, fault):
    path = tmp_path / "naps.py"
    path.write_text(f"{FOREIGN}    {fault}\n")
    before = torch.save
    session = turn({"naps.length": 2}, implementations={"naps.length": str(path)})
    assert torch.save is before
    assert set(session.declined) == {"naps.length"}
    assert len(faults(session)) == 1


def test_a_file_of_another_package_that_is_not_here_is_told(turn, tmp_path):
    path = str(tmp_path / "gone.py")
    session = turn({"naps.length": 2}, implementations={"naps.length": path})
    assert session.declined == {"naps.length": f"there is no file {path} here"}


def test_a_fault_after_a_step_stays_ours(turn, faults):
    session = turn({})

    def broken(step):
        raise ZeroDivisionError("a planted fault")

    session.after_steps(broken)
    net = jobs.model()
    assert jobs.train(net) == jobs.train(jobs.model())
    assert len(faults(session)) == 1


def test_what_a_signal_handler_of_the_job_raises_passes(turn):
    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        turn({}).run_contained((), interrupted)


def test_steps_are_those_of_the_optimizer_that_steps_first(turn):
    seen = []
    turn({}).after_steps(seen.append)
    one, other = jobs.model(), jobs.model()
    second = torch.optim.SGD(other.parameters(), lr=0.1)
    jobs.train(one, steps=3, after=lambda _: second.step())
    assert seen == [1, 2, 3]


def test_steps_of_other_frameworks_count_until_the_recording_ends(turn, tmp_path):
    session = turn({"gc.freeze": True, "gc.collect_interval_steps": 3})
    events = Events(Recorder(str(tmp_path)), standin.Framework())
    session.follow_steps(events)
    session.follow_steps(events)
    compiled = object()  # a step of JAX is no optimizer of PyTorch
    for _ in range(4):
        events.attend_step(compiled)
    assert gc.isenabled()
    events.attend_step(compiled)
    assert session.applied == {"gc.freeze": 1, "gc.collect_interval_steps": 1}
    assert gc.get_freeze_count()
    assert not gc.isenabled()
    events.undo[knobs.StepRelay.listener]()
    assert gc.isenabled()


def test_steps_of_pytorch_are_not_counted_twice(turn, tmp_path):
    seen, session = [], turn({})
    session.after_steps(seen.append)
    events = Events(Recorder(str(tmp_path)), standin.Framework())
    session.follow_steps(events)
    net = jobs.model()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    optimizer.step()
    events.attend_step(optimizer)
    assert seen == [1]


def test_it_counts_and_tells_seldom(turn):
    session = turn({"autograd.anomaly_mode": False})
    for times in range(1, 6):
        torch.autograd.set_detect_anomaly(True)
        assert session.applied == {"autograd.anomaly_mode": times}
    assert told(session)["applied"] == {"autograd.anomaly_mode": 4}  # a power of two
    session.write_state()
    assert told(session)["applied"] == {"autograd.anomaly_mode": 5}
    assert not list(Path(session.folder).glob("*.draft"))


def test_a_forked_child_tells_of_itself(turn):
    session = turn({"autograd.anomaly_mode": False})
    torch.autograd.set_detect_anomaly(True)
    child = os.fork()
    if not child:
        torch.autograd.set_detect_anomaly(True)
        os._exit(0 if session.is_child and session.applied == {"autograd.anomaly_mode": 1} else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert not session.is_child
    assert told(session, child) == told(session)


def test_a_folder_that_cannot_be_written_costs_the_telling_only(tmp_path):
    session = knobs.KnobSession(str(tmp_path / "nowhere"), {})
    session.record_applied("gc.freeze")
    session.decline_knobs(["gc.freeze"], "because")
    assert session.applied == {"gc.freeze": 1}


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"edits": 3}', "{}"])
def test_a_plan_that_cannot_be_read_leaves_the_job_alone(text, tmp_path, monkeypatch):
    path = tmp_path / "edits.json"
    if text is not None:
        path.write_text(text)
    monkeypatch.setenv("WHYIDLE_PLAN", str(path))
    assert knobs.install(str(tmp_path)) is None
    assert (tmp_path / f"{os.getpid()}.faults").read_text().startswith("reading the plan: ")


def test_several_at_once_leave_the_numbers_as_they_are(turn):
    plain = jobs.train(jobs.model(), steps=12)
    session = turn(
        {
            "gc.freeze": True,
            "gc.collect_interval_steps": 2,
            "autograd.anomaly_mode": False,
            "torch.num_threads": 1,
        }
    )
    with torch.autograd.set_detect_anomaly(True):
        assert jobs.train(jobs.model(), steps=12) == plain
    assert not session.declined
    assert set(session.applied) == {
        "gc.freeze",
        "gc.collect_interval_steps",
        "autograd.anomaly_mode",
        "torch.num_threads",
    }
