"""What telemetry can be read, as the sources themselves say."""

import sys
from pathlib import Path
from types import SimpleNamespace

from emulator import fake_nvml
from whyidle.machine import doctor
from whyidle.machine.sources import nvml
from whyidle.model.live.telemetry import Absent, Available, Meter


def source(told, subject="machine"):
    meters = tuple(
        Meter(id=name, unit="s", kind="gauge", meaning="", subject=subject, group="g", cost_us=None)
        for name in ("one_s", "two_s", "three_s")
    )
    return SimpleNamespace(SIGNALS=meters, PERIOD_S=0.5, LIVE=True, probe=lambda _: told)


def checks(sources, *, gpu=True):
    return doctor.check_sources(Path("/"), {}, gpu=gpu, sources=sources)


def test_what_is_missing_is_told_by_its_reason():
    missing = {"one_s@gpu0": Absent("no right", "ask"), "two_s@gpu0": Absent("no right", "ask")}
    ok, gap = checks({"here": source(Available(missing))})
    assert (ok.state, ok.found) == ("ok", "1 of 3 signals, every 0.5 s")
    assert (gap.state, gap.found, gap.close) == ("gap", "one_s, two_s: no right", "ask")


def test_what_nothing_would_help_is_a_note():
    told = Available({"one_s": Absent("not on this system")})
    assert [one.state for one in checks({"here": source(told)})] == ["ok", "note"]


def test_a_source_that_cannot_be_read_is_a_gap_only_where_its_device_is():
    sources = {"cards": source(Absent("no binding", "pip install it"), "gpu")}
    (gap,) = checks(sources)
    assert (gap.topic, gap.state, gap.close) == ("gpu", "gap", "pip install it")
    assert gap.means
    assert checks(sources, gpu=False) == []


def test_nvml_tells_for_itself(monkeypatch):
    card = fake_nvml.training(gpm=None)  # of a generation before GPM
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml.module([card]))
    first, *rest = checks({"nvml": nvml})
    assert first.state == "ok"
    assert any("sm_active_ratio" in check.found for check in rest)
