"""When compiled steps ran, from the calls, a few measured lengths and what was idle when."""

import numpy as np

from whyidle.model.timeline import HostEvents, HostKind
from whyidle.probe import wire
from whyidle.readers.probe import with_executions

MS = 1_000_000
NAMES = ["jit(step)", "whyidle::optimizer", "jit(step)", "device_idle", "compile", "loss"]
ROLES = [
    wire.OPTIMIZER, wire.OPTIMIZER_OPERATORS, wire.EXECUTION, wire.DEVICE_IDLE, wire.COMPILE,
    wire.SCALAR_READ,
]  # fmt: skip
STEP, WORK, MEASURED, IDLE, COMPILE, READ = range(len(NAMES))
ANNOTATION, OP, RUNTIME = HostKind.ANNOTATION, HostKind.OP, HostKind.RUNTIME


def run_steps(*rows):
    """The intervals of the device (ms), of rows (begin ms, end ms, name)."""
    kinds = {STEP: ANNOTATION, WORK: OP, MEASURED: OP, IDLE: ANNOTATION, READ: RUNTIME}
    begin, end, name = np.array(rows).T
    events = HostEvents.from_columns(
        (begin * MS).astype(np.int64),
        (end * MS).astype(np.int64),
        kind=[kinds.get(int(one), ANNOTATION) for one in name],
        name=name,
        thread=0,
    )
    found, names, roles = with_executions(events.join(), list(NAMES), list(ROLES), 7)
    run = found.take_rows(found.thread == 7)
    assert {(names[i], roles[i]) for i in run.name} <= {("jit(step)", wire.EXECUTION)}
    assert not {wire.DEVICE_IDLE, wire.OPTIMIZER_OPERATORS} & {roles[i] for i in found.name}
    return [(a / MS, b / MS) for a, b in zip(run.start.tolist(), run.end.tolist(), strict=True)]


def test_a_step_ends_after_its_measured_length():
    spans = [(0, 1, STEP), (0, 1, WORK), (0, 10, MEASURED), (10, 10, IDLE)]
    spans += [(50, 51, STEP), (1, 50, IDLE), (100, 101, STEP), (51, 100, IDLE)]
    assert run_steps(*spans) == [(0, 10), (50, 60), (100, 110)]


def test_a_device_that_is_never_idle_works_all_the_time():
    found = run_steps((0, 1, STEP), (20, 21, STEP), (40, 41, STEP))
    assert (found[0][0], found[-1][1]) == (0, 40)


def test_a_host_that_runs_ahead_says_nothing_of_single_steps():
    calls = [(i, i + 1, STEP) for i in range(4)]
    found = run_steps(*calls, (4, 80, READ), (80, 80, IDLE))
    assert found == [(0, 20), (20, 40), (40, 60), (60, 80)]


def test_steps_in_flight_at_the_next_call_take_their_measured_lengths():
    spans = [(0, 20, MEASURED), (20, 20, IDLE), (0, 1, STEP), (40, 41, STEP), (50, 51, STEP)]
    spans += [(51, 90, IDLE), (90, 91, STEP)]
    assert run_steps(*spans) == [(0, 20), (40, 60), (60, 80), (90, 110)]


def test_a_read_that_waited_tells_the_end():
    spans = [(0, 1, STEP), (1, 33, READ), (33, 33, IDLE), (60, 61, STEP), (61, 92, READ)]
    assert run_steps(*spans, (92, 92, IDLE)) == [(0, 33), (60, 92)]


def test_compiling_is_not_running():
    spans = [(0, 500, STEP), (0, 490, COMPILE), (490, 520, READ), (520, 520, IDLE)]
    assert run_steps(*spans) == [(490, 520)]


def test_a_recording_without_steps_is_left_alone():
    assert run_steps((0, 1, COMPILE)) == []
