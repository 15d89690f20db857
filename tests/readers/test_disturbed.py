"""Windows in which a burst disturbed a process, and all that share a host with it."""

import json

import pytest

from whyidle.readers import probe


@pytest.fixture
def recording(tmp_path):
    told = {"windows": [[2_000, 3_000], [5_000, 0]], "bursts": [], "off": None}
    (tmp_path / "7-2.bursts.json").write_text(json.dumps(told))
    (tmp_path / "7.rank.json").write_text(json.dumps({"host": "a"}))
    return tmp_path


def test_windows_hold_for_every_process_of_the_host(recording):
    found = probe._disturbed_windows(recording, "a", 1_000)
    assert found[0] == (1_000, 2_000)
    assert found[1][0] == 4_000
    assert found[1][1] > 1 << 60  # killed within a burst: until the end
    assert probe._disturbed_windows(recording, None, 1_000) == found


def test_another_host_has_another_clock(recording):
    assert probe._disturbed_windows(recording, "b", 1_000) == ()


def test_a_torn_document_says_nothing(recording):
    (recording / "7-2.bursts.json").write_text('{"windows": [[1')
    assert probe._disturbed_windows(recording, "a", 0) == ()
