"""The live view's lines fit any terminal, and say nothing that is not known."""

import pytest
from rich.cells import cell_len
from rich.text import Text

from imagined_jobs import SICK
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.model.live.live_moment import Moment
from whyidle.reports._live_panel import LINES, draw_panel, draw_sparkline

READING = {
    "job_memory_resident_bytes": 3.2e9,
    "machine_memory_bytes": 64e9,
    "cores_effective": 8,
    "pressure_cpu_some_ratio": 0.3,
    "busy_ratio@gpu0": 0.4,
    "sm_active_ratio@gpu0": 0.2,
    "memory_used_bytes@gpu0": 20e9,
    "power_w@gpu0": 120.0,
    "temperature_c@gpu0": None,
}


@pytest.fixture(scope="module")
def moment():
    diagnosis = diagnose_job([next(iter(SICK.values()))().timeline()])
    trend = tuple(0.01 + i % 5 / 1000 for i in range(120))
    return Moment(1234, 0.0123, trend, diagnosis, READING, 3.2, "12:00:01  steps 12 → 31 ms")


@pytest.mark.parametrize("width", [40, 41, 60, 80, 133, 200])
@pytest.mark.parametrize("colours", [None, "256"])
def test_every_row_fits(moment, width, colours):
    rows = draw_panel(moment, width=width, colours=colours)
    assert len(rows) == LINES
    plain = [Text.from_ansi(row).plain for row in rows]
    assert max(map(cell_len, plain)) <= width
    if colours is None:
        assert rows == plain
        assert all(row.isascii() for row in rows)
    assert "12.3 ms" in plain[3]
    assert "gpu0 busy 40%" in plain[4]


def test_before_anything_is_known():
    rows = draw_panel(Moment(), width=40, colours=None)
    assert len(rows) == LINES
    assert not any("None" in row or "nan" in row for row in rows)


def test_a_trend_keeps_its_newest_values():
    assert draw_sparkline((1, 2, 3, 4), 2) == "▆█" or draw_sparkline((1, 2, 3, 4), 2)[-1] == "█"
    assert len(draw_sparkline(range(100), 10)) == 10
    assert (
        draw_sparkline((), 10) == draw_sparkline((0.0, 0.0), 10) == draw_sparkline((1.0,), 0) == ""
    )
