"""A machine that other programs keep busy is told of, as all times are of such a machine."""

import pytest
from imagined import Imagined


def notes(tmp_path, *, own, busy, idle, threads=1):
    job = Imagined(tmp_path, switches={"num_threads": threads})
    for _ in range(200):
        job.step()
    job.trained()
    cpu = {"job_cpu_user_s": own, "machine_cpu_user_s": busy, "machine_cpu_idle_s": idle}
    job.telemetry({name: (rate, 0.0) for name, rate in cpu.items()})
    return [note for note in job.diagnose().coverage.notes if "other programs" in note]


def test_neighbours_on_a_full_machine_are_told(tmp_path):
    (note,) = notes(tmp_path, own=0.9, busy=1.96, idle=0.04)
    assert note.startswith("other programs used 1.1 of the machine's 2 cores")
    assert note.endswith("repeat the run on an idle machine")


@pytest.mark.parametrize(("others", "told"), [(1.1, True), (0.3, False)])
def test_threads_of_operators_that_have_no_core_left_are_told(tmp_path, others, told):
    (note,) = notes(tmp_path, own=1.96 - others, busy=1.96, idle=0.04, threads=2)
    assert ("OMP_NUM_THREADS=1 here" in note) is told


@pytest.mark.parametrize(
    "used",
    [
        {"own": 1.95, "busy": 2.0, "idle": 0.0},
        {"own": 1.0, "busy": 3.0, "idle": 5.0},
        {"own": 0.5, "busy": 0.6, "idle": 1.4},
        {"own": 0.0, "busy": 0.0, "idle": 0.0},
    ],
    ids=["its own processes", "idle cores", "a quiet machine", "too short to count"],
)
def test_not_where_there_is_room_or_nobody_else(tmp_path, used):
    assert notes(tmp_path, **used) == []
