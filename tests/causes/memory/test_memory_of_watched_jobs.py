"""Memory of the host, from the files of a recording to the diagnosis."""

import pytest
from imagined import BEGIN, MS, Imagined, S, finding

from whyidle.analysis.sampling.interpretation import find_kept_losses
from whyidle.record.recording_diagnosis import diagnose_jobs
from whyidle.testing.contracts import check_bounds

HOST = {
    "cpu_user_s@pid7": (1.0, 0.0),
    "machine_memory_bytes": 64e9,
    "machine_memory_available_bytes": 10e9,
    "cores_effective": 8.0,
}
PRESSURE = {
    "group_pressure_memory_some_s": (0.3, 0.0),
    "group_pressure_memory_full_s": (0.1, 0.0),
}
SOURCE = """
losses, total = [], 0.0

def fit(model, x):
    global total
    for _ in range(3):
        loss = model(x)
        loss.backward()
        total += loss.item()
        losses.append(loss)
        kept = losses.append(float(loss))
        total = total + loss.detach()
        values.append(other)
        seen.append((1, loss))
        total += loss
"""


def job(folder, used, source="", steps=1000):
    """A job of 20 ms steps whose memory is read every second."""
    script = folder / "train.py"
    script.write_text(source)
    made = Imagined(folder)
    first = made.now
    made.look(f"{script}(5): fit;{script}(9): <module>", 20 * MS)
    for _ in range(steps):
        made.step()
    reads = [[first + i * S, 50 * i, int(used(i))] for i in range(1, steps // 50)]
    made.trained(memory=reads)
    made.telemetry(HOST)
    diagnosis = made.diagnose()
    check_bounds(diagnosis)
    return finding(diagnosis, "memory-leak-growth"), diagnosis


def test_a_process_that_grows_and_the_line_that_keeps(tmp_path):
    found, diagnosis = job(tmp_path, lambda i: 5e8 + 1e8 * i, SOURCE)
    assert "2 MB per step" in found.headline
    assert "in about 5000 steps" in found.headline
    assert (found.where[0].line, found.where[0].function) == (10, "fit")
    assert found.severity == "info"
    assert diagnosis.verdict.state == "inconclusive"  # what it computes was not recorded
    assert "the process grows by 2 MB per step" in diagnosis.verdict.headline


@pytest.mark.parametrize("then", ["", "changed"])
def test_a_script_that_changes_after_the_run_changes_no_diagnosis(tmp_path, then):
    _, diagnosis = job(tmp_path, lambda i: 5e8 + 1e8 * i, SOURCE)
    script = tmp_path / "train.py"
    script.write_text(SOURCE.replace("losses.append(loss)", "pass")) if then else script.unlink()
    assert diagnose_jobs(tmp_path) == [diagnosis]


def test_without_the_source_the_growth_is_told(tmp_path):
    found, _ = job(tmp_path, lambda i: 5e8 + 1e8 * i)
    assert found.where == []
    assert found.confidence < 0.9


@pytest.mark.parametrize(
    "used",
    [
        lambda _: 5e8,  # level
        lambda i: 5e8 + 1e9 * min(i, 6),  # a cache that settles
        lambda i: 5e8 + 1e6 * i,  # too little to tell
        lambda i: 5e8 + (2e9 if i % 2 else 0),  # up and down
    ],
)
def test_what_does_not_grow_is_not_blamed(tmp_path, used):
    assert job(tmp_path, used)[0] is None


def test_lines_that_keep_a_loss():
    stacks = ["/x/site-packages/a.py(1): b;/job/train.py(5): fit;<frozen x>(1): y"]
    found = find_kept_losses(stacks, {"/job/train.py": SOURCE, "/x/site-packages/a.py": SOURCE})
    assert [one.line for one in found] == [10, 14, 15]
    assert {one.function for one in found} == {"fit"}


def test_source_that_cannot_be_parsed_tells_nothing():
    stacks = ["/job/broken.py(1): f;/job/gone.py(1): g"]
    assert find_kept_losses(stacks, {"/job/broken.py": "def ("}) == ()


def test_memory_pressure_while_data_are_waited_for(tmp_path):
    made = Imagined(tmp_path)
    for _ in range(200):
        made.step(loader=20 * MS)
    made.trained()
    made.telemetry({**HOST, **PRESSURE})
    diagnosis = made.diagnose()
    check_bounds(diagnosis)
    found = finding(diagnosis, "host-memory-pressure")
    assert (found.bucket, found.severity) == ("input", "warning")


def test_memory_pressure_of_a_command_without_steps(tmp_path):
    made = Imagined(tmp_path)
    made.telemetry({**HOST, **PRESSURE}, end=BEGIN + 20 * S)
    found = made.diagnose(["./prepare"]).findings[0]
    assert (found.cause, found.bucket) == ("host-memory-pressure", "unknown")
    assert (found.lost.low, found.lost.high) == pytest.approx((0.1, 0.3))
