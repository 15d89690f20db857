"""Alerts of `whyidle watch` in a process of its own."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from service_tools import GIB, wait_until, write_cards

RULE = """
use = ["held"]
interval_s = 1
[[rule]]
id = "held"
summary = "held"
of = "gpu"
signal = "whyidle_gpu_state"
labels = {{ state = "idle-held" }}
above = 0.5
window_s = 3
coverage = 0.6
[[route]]
{route}
"""
HELD = {"memory": [40 * GIB, 80 * GIB]}


def test_alerts_beside_documents_on_standard_output_are_documents(tmp_path: Path, start):
    (tmp_path / "alerts.toml").write_text(RULE.format(route='kind = "stdout"'))
    out = tmp_path / "out.jsonl"
    with out.open("wb") as file:
        start(
            sys.executable, "-m", "whyidle", "watch", "--json", "--interval", "0.5", "--alerts",
            "alerts.toml", env=write_cards(tmp_path, HELD), stdout=file,
        )  # fmt: skip
        wait_until(lambda: b"whyidle/alert/1" in out.read_bytes(), 25)
        time.sleep(1)
    kinds = [json.loads(line)["schema"] for line in out.read_text().splitlines()]
    assert set(kinds) == {"whyidle/watch/1", "whyidle/alert/1"}
