"""Logs of nvidia-smi in the forms that people have."""

from __future__ import annotations

import gzip
import os
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from whyidle.errors import WhyidleError
from whyidle.readers._state.gpu_log import read_gpu_log
from whyidle.readers._state.state_files import read_state
from whyidle.recordings.explain import explain_paths

QUERY = "timestamp, index, utilization.gpu [%], utilization.memory [%], memory.used [MiB], "
MONITOR = "# gpu    pwr  gtemp  mtemp     sm    mem    enc    dec   mclk   pclk\n"
UNITS = "# Idx      W      C      C      %      %      %      %    MHz    MHz\n"


def query(busy: list[int], used: int = 9000) -> str:
    rows = [
        f"2025/09/24 02:{i // 60:02d}:{i % 60:02d}.000, 0, {each} %, 5 %, {used} MiB, 40960 MiB\n"
        for i, each in enumerate(busy)
    ]
    return f"{QUERY}memory.total [MiB]\n{''.join(rows)}"


def monitor(busy: list[int]) -> str:
    rows = "    0     70     45      -  {:5d}      5      0      0   5000   1590\n"
    return f"{MONITOR}{UNITS}{''.join(rows.format(each) for each in busy)}"


def dated(busy: list[int]) -> str:
    rows = " 20250924   03:{:02d}:{:02d}      0     70  {:5d}      5\n"
    head = "#Date       Time        gpu    pwr     sm    mem\n"
    return head + "".join(rows.format(i // 60, i % 60, each) for i, each in enumerate(busy))


@pytest.fixture
def diagnose(tmp_path):
    def run(text: str):
        path = tmp_path / "log.csv"
        path.write_text(text)
        return explain_paths([path]).diagnosis

    return run


FORMS = [query, monitor, dated]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_tells_the_same_share(diagnose, form):
    found = diagnose(form([40] * 10 + [44] * 10))
    assert found.utilization.gpu_util == pytest.approx(0.42)
    assert "58% of the time (in part of every sample)" in found.verdict.headline
    assert any("whyidle run COMMAND" in note for note in found.coverage.notes)


@pytest.mark.parametrize("form", [query, dated])
def test_gaps_at_intervals_have_a_period_in_seconds(diagnose, form):
    notes = " ".join(diagnose(form(([96] * 18 + [0] * 12) * 8)).coverage.notes)
    assert "recurs every 30 s" in notes


@pytest.mark.parametrize(
    ("busy", "words"),
    [
        ([0, 1] * 20, "nothing ran on it"),
        ([98] * 30, "nearly always busy"),
        ([0, 0, 0, 95, 0, 95, 95, 0, 0, 0, 95, 95, 95, 95, 0, 0, 95, 0, 0], "between bursts"),
    ],
)
def test_patterns(diagnose, busy, words):
    assert words in diagnose(query(busy)).verdict.headline


@pytest.mark.parametrize(("used", "words"), [(40500, "no room"), (3000, "a larger batch may fit")])
def test_the_memory_tells_whether_a_larger_batch_may_fit(diagnose, used, words):
    assert words in " ".join(diagnose(query([50] * 9, used)).coverage.notes)


def test_several_gpus_and_a_header_that_recurs(diagnose):
    rows = "    {}     70     45      -     {}      5      0      0   5000   1590\n"
    text = (MONITOR + UNITS + (rows.format(0, 60) + rows.format(1, 0)) * 5) * 3
    found = diagnose(text)
    assert found.run.ranks == 2
    assert "GPU 0 40% of the time" in found.verdict.headline


def test_gpus_without_an_index_are_told_apart_by_their_times(diagnose):
    row = "2025/09/24 02:00:{:02d}.{}, {} %, 5 %, 9000 MiB, 40960 MiB\n"
    rows = [
        row.format(i, f"{at:03d}", busy) for i in range(30) for at, busy in ((120, 80), (124, 0))
    ]
    text = QUERY.replace(" index,", "") + "memory.total [MiB]\n" + "".join(rows)
    found = diagnose(text)
    assert found.run.ranks == 2
    assert "GPU 0 20% of the time" in found.verdict.headline
    assert "nothing ran on GPU 1;" in found.verdict.headline
    assert diagnose("".join(text.splitlines(keepends=True)[::2])).run.ranks == 1


def test_a_bus_address_tells_gpus_apart(diagnose):
    row = "{}, {} %, 9000 MiB\n"
    rows = [
        row.format(f"00000000:{bus}:00.0", busy)
        for _ in range(9)
        for bus, busy in (("07", 9), ("0B", 70))
    ]
    found = diagnose("pci.bus_id, utilization.gpu [%], memory.used [MiB]\n" + "".join(rows))
    assert found.run.ranks == 2


def test_a_log_of_processes_is_no_log_of_gpus(diagnose):
    with pytest.raises(WhyidleError, match="nvidia-smi output"):
        diagnose("# gpu    pid   type     sm    mem    command\n    0  11  C  20  2  python\n")


def test_a_log_without_numbers_is_refused(diagnose):
    with pytest.raises(WhyidleError, match="no GPU utilization"):
        diagnose(f"{QUERY}memory.total [MiB]\n2025/09/24 02:00:00.000, 0, [N/A], [N/A], 5 MiB, 9\n")


@settings(max_examples=60, deadline=None)
@given(cut=st.integers(0, 400), odd=st.binary(max_size=20), form=st.sampled_from(FORMS))
def test_damaged_logs_are_read_or_refused(tmp_path_factory, cut, odd, form):
    path = tmp_path_factory.mktemp("odd") / "log.csv"
    text = form([50] * 9).encode()
    path.write_bytes(text[:cut] + odd + text[cut:])
    with suppress(WhyidleError):
        read_state(path)


SHARED = Path(os.environ.get("WHYIDLE_TRACES", Path(__file__).parents[4] / "shared/traces"))


@pytest.mark.skipif(not (SHARED / "telemetry").is_dir(), reason="no shared telemetry here")
@pytest.mark.parametrize(
    ("name", "mean", "idle"),
    [
        ("dfcbb99", 0.91, 0.0),
        ("d64460f", 0.50, 0.47),
        ("1695668", 0.78, 0.18),  # has runs of NUL bytes
        ("1e6808e", 0.94, 0.02),
        ("043da19", 0.65, 0.33),
    ],
)
def test_recorded_v100_logs(name, mean, idle):
    path = SHARED / f"telemetry/nvidia_smi_v100_{name}.csv.gz"
    gpu = read_gpu_log(path, gzip.decompress(path.read_bytes()).decode()).gpus[0]
    assert gpu.busy.mean() / 100 == pytest.approx(mean, abs=0.006)
    assert (gpu.busy == 0).mean() == pytest.approx(idle, abs=0.006)
