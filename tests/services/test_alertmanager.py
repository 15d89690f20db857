"""A real Alertmanager between `whyidle watch` and a webhook; and without it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path

from service_tools import GIB, fetch, free_port, need, wait_until, write_cards, write_job

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


def start_alertmanager(start, folder: Path, url: str, port: int) -> subprocess.Popen[bytes]:
    (folder / "am.yml").write_text(AM.replace("URL", url))
    process = start(
        "prometheus-alertmanager", "--config.file=am.yml", f"--storage.path=am-{time.time_ns()}",
        f"--web.listen-address=127.0.0.1:{port}", "--cluster.listen-address=",
    )  # fmt: skip
    wait_until(lambda: fetch(f"http://127.0.0.1:{port}/-/ready"), 20)
    return process


def statuses(got: list[dict]) -> list[str]:
    return [alert["status"] for body in got for alert in body["alerts"]]


def test_one_firing_one_resolved(tmp_path: Path, start, hook):
    need("prometheus-alertmanager")
    url, got = hook
    port = free_port()
    start_alertmanager(start, tmp_path, url, port)
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


def test_an_alertmanager_that_is_killed_is_told_once_and_posted_to_again(
    tmp_path: Path, start, hook
):
    need("prometheus-alertmanager")
    url, got = hook
    port = free_port()
    manager = start_alertmanager(start, tmp_path, url, port)
    route = f'kind = "alertmanager"\nurl = "http://127.0.0.1:{port}"'
    (tmp_path / "alerts.toml").write_text(RULE.format(quiet="", route=route))
    job = start(
        sys.executable, "-m", "whyidle", "run", "-q", sys.executable,
        str(write_job(tmp_path)), "20",
    )  # fmt: skip
    free = {"busy": 0.0}
    process = watch(start, tmp_path, write_cards(tmp_path, HELD, free))
    wait_until(lambda: statuses(got) == ["firing"], 25)
    manager.kill()
    manager.wait()
    write_cards(tmp_path, HELD, HELD)  # something new to tell
    told, looks = tmp_path / "told.txt", tmp_path / "looks.jsonl"
    wait_until(lambda: "not published" in told.read_text(), 25)
    before = looks.read_text().count("\n")
    time.sleep(3)
    assert told.read_text().count("alertmanager: not published") == 1
    assert looks.read_text().count("\n") >= before + 3  # it watches on
    start_alertmanager(start, tmp_path, url, port)  # with nothing remembered
    wait_until(lambda: len(statuses(got)) >= 3, 25)
    assert {alert["labels"]["UUID"] for alert in got[-1]["alerts"]} <= {"GPU-0", "GPU-1"}
    wait_until(lambda: "published again" in told.read_text(), 5)
    assert process.poll() is None
    assert job.wait(40) == 0


def test_alerts_beside_documents_on_standard_output_are_documents(tmp_path: Path, start):
    (tmp_path / "alerts.toml").write_text(RULE.format(quiet="", route='kind = "stdout"'))
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
