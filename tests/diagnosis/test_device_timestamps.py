"""What marks and a burst say of the same device stand side by side."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from watched_run import add_facts, hide_device
from whyidle.analysis.intervals import union_of
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.model.device_timestamps import ASKED, BATCH, EMPTY, MARK, STEPPED
from whyidle.model.live.telemetry import Series, Telemetry
from whyidle.model.timeline import HostKind
from whyidle.testing.builder import Builder, ms, us

WINDOW = "profile of steps 101 to 103"


def job(steps, pause="", work=0):
    """Batches take 9 ms, and kernels 3 ms of which the host waits for none; of every fifth step
    the host makes a pause of 30 ms, where one is named, for so much ``work`` of the device."""
    made = Builder()
    for number in range(steps):
        with made.step():
            made.loader(ms(9))
            made.op("aten::mm", kernels=[("ampere_sgemm_128x64_tn", ms(3))])
            made.optimizer(kernels=[("elementwise_kernel", us(3))], name="Adam")
            if pause and number % 5 == 4:
                with made.span(pause):
                    if work:
                        made.op("aten::mm", kernels=[("ampere_sgemm_128x64_tn", work)])
                    made.quiet(ms(30))
    return made.timeline()


def watched(timeline):
    """The same as live signals see it: calls, and marks in every step."""
    host, names = timeline.host, timeline.names
    calls = host.take_rows(host.kind == HostKind.ANNOTATION)
    rows = []
    nexts = [i for i in range(len(calls)) if "__next__" in names[calls.name[i]]]
    for window, i in enumerate(nexts[1:-1]):
        begin, end = int(calls.start[i]), int(calls.end[i])
        done = int(timeline.device.end[timeline.device.end < end].max())
        first = int(done - ms(3))
        after = end + ms(3)
        rows += [
            (begin, first, 0, window, STEPPED, 2, b""),
            (begin, begin, done - first, window, ASKED, 0, b""),
            (begin, end, end - first, window, BATCH, 1, b""),
            (end, end + us(100), after - first, window, STEPPED, 1, b""),
        ]
    seen = replace(hide_device(timeline, HostKind.ANNOTATION), marks=np.array(rows, MARK))
    return add_facts(seen, {"switches": {}})


def shares(diagnosis):
    return msgspec.structs.asdict(diagnosis.attribution)


def found(diagnosis, cause):
    return next((one for one in diagnosis.findings if one.cause == cause), None)


PAUSES = [
    ("save_checkpoint", "sync-checkpoint"),
    ("Python GC", "python-gc-pauses"),
    ("wandb/sdk: log", "blocking-logging-upload"),
]


@pytest.mark.parametrize(("pause", "cause"), PAUSES)
def test_a_pause_leaves_the_device_idle_as_soon_as_it_has_done_its_work(pause, cause):
    seen = job(30, pause)
    diagnosis, truth = diagnose_job([watched(seen)]), shares(diagnose_job([seen]))
    assert truth["interruption"] == pytest.approx(0.33, abs=0.03)
    assert diagnosis.attribution.interruption == pytest.approx(truth["interruption"], abs=0.03)
    assert found(diagnosis, cause).bucket == "interruption"


@pytest.mark.parametrize(("pause", "cause"), PAUSES)
def test_a_burst_without_a_pause_hides_none(pause, cause):
    seen = job(30, pause)
    burst = add_facts(job(3), {"switches": {}, "burst": {"window": WINDOW}})
    diagnosis = diagnose_job([replace(watched(seen), bursts=(burst,))])
    told, truth = diagnosis.attribution, shares(diagnose_job([seen]))
    assert told.compute == pytest.approx(truth["compute"], abs=0.02)
    assert told.interruption == pytest.approx(truth["interruption"], abs=0.03)
    assert told.input + told.unknown == pytest.approx(truth["input"], abs=0.03)
    assert found(diagnosis, cause).severity == "critical"


def test_what_a_device_does_in_an_evaluation_is_not_known():
    seen = job(30, "evaluation")
    burst = add_facts(job(3), {"switches": {}, "burst": {"window": WINDOW}})
    for bursts in ((), (burst,)):
        diagnosis = diagnose_job([replace(watched(seen), bursts=bursts)])
        assert diagnosis.attribution.interruption == 0.0
        assert diagnosis.attribution.unknown == pytest.approx(0.36, abs=0.05)
        heavy = found(diagnosis, "heavy-evaluation")
        assert heavy.bucket == "unknown"
        assert heavy.lost.low == 0.0
        assert heavy.lost.high == pytest.approx(0.36, abs=0.05)


def read(seen, every=7_000_000, pids=(4711,)):
    """What is read of the GPU beside the same job: its busy share, and who holds its memory."""
    seen_busy = union_of(seen.device.start, seen.device.end)
    times = np.arange(0, int(seen.device.end[-1]), every)
    shares = np.append(0.0, seen_busy.length_inside(times[:-1], times[1:]) / every)
    held = {f"process_memory_bytes@gpu0.pid{pid}": np.ones(len(times)) for pid in pids}
    series = {"busy_ratio@gpu0": shares, **held}
    return Telemetry(
        {name: Series(seen.base_ns + times, each) for name, each in series.items()}, {}
    )


def test_a_queue_of_copies_is_not_told_as_computing():
    """Marks call a device fed whatever it has to do; kernels alone make it busy."""
    seen = job(60)
    fed = diagnose_job([watched(seen)]).attribution
    kernels = msgspec.structs.replace(
        read(seen),
        series={
            k: msgspec.structs.replace(s, value=s.value / 2) if "busy" in k else s
            for k, s in read(seen).series.items()
        },
    )
    told = diagnose_job([replace(watched(seen), telemetry=kernels)]).attribution
    assert fed.compute == pytest.approx(shares(diagnose_job([seen]))["compute"], abs=0.03)
    assert told.compute == pytest.approx(fed.compute / 2, abs=0.03)
    assert told.input == fed.input
    assert told.unknown == pytest.approx(fed.unknown + fed.compute / 2, abs=0.03)


def notes(diagnosis, begin):
    return [note for note in diagnosis.coverage.notes if note.startswith(begin)]


def test_alone_the_events_tell_the_shares():
    diagnosis = diagnose_job([watched(job(30))])
    (note,) = notes(diagnosis, "device events in 28 steps")
    assert "the shares come from these events" in note
    assert 0.6 < diagnosis.attribution.input < 0.7


def test_with_a_burst_both_numbers_stand_side_by_side():
    live = watched(job(30))
    burst = add_facts(job(3), {"switches": {}, "burst": {"window": WINDOW}})
    diagnosis = diagnose_job([replace(live, bursts=(burst,))])
    assert shares(diagnosis) == pytest.approx(shares(diagnose_job([burst])), abs=0.001)
    (note,) = notes(diagnosis, WINDOW + ": waiting for a batch")
    assert "points" in note
    assert not any("told by these" in note for note in diagnosis.coverage.notes)


def test_without_marks_nothing_is_said():
    live = replace(watched(job(30)), marks=EMPTY)
    assert not notes(diagnose_job([live]), "events")
