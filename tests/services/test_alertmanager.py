"""A real Alertmanager between `whyidle watch` and a webhook; and without it."""

from __future__ import annotations

import subprocess
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path

from service_tools import GIB, fetch, free_port, need, wait_until, write_cards

RULE = """
use = ["held"]
interval_s = 1
{quiet}
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
AM = """
route: {receiver: hook, group_wait: 0s, group_interval: 1s, repeat_interval: 1h}
receivers:
  - name: hook
    webhook_configs: [{url: "URL", send_resolved: true}]
"""
HELD = {"memory": [40 * GIB, 80 * GIB]}


def watch(start, folder: Path, environ: dict[str, str]) -> subprocess.Popen[bytes]:
    with (folder / "told.txt").open("wb") as told:
        return start(
            sys.executable, "-m", "whyidle", "watch", "--json", "looks.jsonl", "--interval", "0.5",
            "--alerts", "alerts.toml", env=environ, stderr=told,
        )  # fmt: skip


def statuses(got: list[dict]) -> list[str]:
    return [alert["status"] for body in got for alert in body["alerts"]]


def test_one_firing_one_resolved(tmp_path: Path, start, hook):
    need("prometheus-alertmanager")
    url, got = hook
    port = free_port()
    (tmp_path / "am.yml").write_text(AM.replace("URL", url))
    start(
        "prometheus-alertmanager", "--config.file=am.yml", "--storage.path=am",
        f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address=",
    )  # fmt: skip
    wait_until(lambda: fetch(f"http://127.0.0.1:{port}/-/ready"), 20)
    route = f'kind = "alertmanager"\nurl = "http://127.0.0.1:{port}"'
    (tmp_path / "alerts.toml").write_text(RULE.format(quiet="", route=route))
    environ = write_cards(tmp_path, HELD)
    watch(start, tmp_path, environ)
    wait_until(lambda: statuses(got) == ["firing"], 25)
    assert got[0]["alerts"][0]["labels"]["alertname"] == "WhyidleHeld"
    assert "40 GiB are held" in got[0]["alerts"][0]["annotations"]["cause"]
    write_cards(tmp_path, {"busy": 0.9, "memory": [40 * GIB, 80 * GIB]})
    wait_until(lambda: statuses(got)[-1] == "resolved", 25)
    time.sleep(2)
    assert statuses(got) == ["firing", "resolved"]


def test_no_notice_in_quiet_hours(tmp_path: Path, start, hook):
    url, got = hook
    now = datetime.now()
    begin, end = (f"{now + timedelta(minutes=m):%H:%M}" for m in (-5, 5))
    quiet = f'[[quiet]]\nfrom = "{begin}"\nto = "{end}"'
    route = f'kind = "webhook"\nurl = "{url}"'
    (tmp_path / "alerts.toml").write_text(RULE.format(quiet=quiet, route=route))
    process = watch(start, tmp_path, write_cards(tmp_path, HELD))
    looks = tmp_path / "looks.jsonl"
    wait_until(lambda: looks.exists() and looks.read_text().count("idle-held") >= 10, 25)
    time.sleep(2)
    assert got == []
    assert process.poll() is None


def test_an_alertmanager_that_is_away_is_told_once(tmp_path: Path, start):
    route = f'kind = "alertmanager"\nurl = "http://127.0.0.1:{free_port()}"'
    (tmp_path / "alerts.toml").write_text(RULE.format(quiet="", route=route))
    process = watch(start, tmp_path, write_cards(tmp_path, HELD))
    told = tmp_path / "told.txt"
    wait_until(lambda: "not published" in told.read_text(), 25)
    time.sleep(3)
    assert told.read_text().count("not published") == 1
    assert process.poll() is None  # and it watches on
