"""A real Prometheus scrapes a job's page, and a real node-exporter reads its file."""

from __future__ import annotations

import json
import sys
import urllib.parse
from itertools import pairwise
from pathlib import Path

import pytest
from service_tools import fetch, free_port, need, wait_until, write_job


def query(port: int, text: str) -> list[dict]:
    answer = fetch(f"http://127.0.0.1:{port}/api/v1/query?query={urllib.parse.quote(text)}")
    return json.loads(answer)["data"]["result"]


def test_the_eight_places_add_up_to_wall_time(tmp_path: Path, start):
    pytest.importorskip("torch")
    need("prometheus")
    page, server = free_port(), free_port()
    (tmp_path / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s}\n"
        "scrape_configs:\n"
        f"  - {{job_name: whyidle, static_configs: [{{targets: ['127.0.0.1:{page}']}}]}}\n"
    )
    job = write_job(tmp_path)
    whyidle = [sys.executable, "-m", "whyidle", "run", "--quiet", "--prometheus", str(page)]
    start(*whyidle, sys.executable, str(job), "60")
    start(
        "prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=tsdb",
        f"--web.listen-address=127.0.0.1:{server}",
    )  # fmt: skip
    wait_until(lambda: query(server, 'up{job="whyidle"} == 1'), 30)
    series = 'whyidle_step_time_seconds_total{place!="unknown"}'
    wait_until(lambda: query(server, f"sum({series}) > 12"), 45)  # it has been diagnosed a while
    # between two changes of the page, as seen by Prometheus: wall time of the scrape itself
    rows = query(server, "whyidle_step_time_seconds_total[60s]")
    assert len(rows) == 8
    totals: dict[float, float] = {}
    for row in rows:
        for when, value in row["values"]:
            totals[when] = totals.get(when, 0.0) + float(value)
    moments = sorted(totals)
    changed = [b for a, b in pairwise(moments) if totals[b] > totals[a]]
    first, last = changed[0], changed[-1]
    watched = totals[last] - totals[first]
    assert watched > 8
    # a scrape a second apart sees a change up to a second late, at both ends
    assert watched == pytest.approx(last - first, abs=1.0 + 0.01 * watched)
    assert query(server, "whyidle_run_info")[0]["metric"]["cause"] == "dataloader-no-workers"
