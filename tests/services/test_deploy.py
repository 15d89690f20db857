"""What `deploy` installs, on a real Prometheus and a real Slurm."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import urllib.parse
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import pytest
from service_tools import REPOSITORY, fetch, free_port, need, wait_until
from slurm_conf import start_slurm, stop_slurm

from tests.machine.publishers.conftest import make_look
from whyidle.machine.publishers.prometheus import format_page
from whyidle.model.live.metric_series import SeriesBuilder

DEPLOY = REPOSITORY / "deploy"
NEEDED = ("slurmctld", "slurmd", "munged", "sbatch")
SLURM = """
Prolog={folder}/prolog
Epilog={folder}/epilog
EpilogSlurmctld={folder}/epilog-slurmctld
"""


@pytest.fixture
def page() -> str:
    """The address of a page of two machines: one starves, one is held and unused."""
    look = make_look()
    (job,), (gpu,) = look.jobs, look.gpus
    steps = msgspec.structs.replace(job.steps, rank_skew=0.1)
    look = msgspec.structs.replace(look, jobs=[msgspec.structs.replace(job, steps=steps)])
    held = msgspec.structs.replace(gpu, state="idle-held", jobs=[])
    host = msgspec.structs.replace(look.host, name="node8")
    other = msgspec.structs.replace(look, host=host, gpus=[held], jobs=[])
    first, second = SeriesBuilder(), SeriesBuilder()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            shown = first if self.path == "/first" else second
            metrics = shown.add_look(look if shown is first else other)
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.end_headers()
            self.wfile.write(format_page(metrics).encode())

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


def test_every_expression_of_the_dashboards_has_an_answer(tmp_path: Path, start, page: str):
    need("prometheus")
    for name in ("recording.yml", "alerts.yml"):
        text = (DEPLOY / "prometheus" / name).read_text()
        # within seconds instead of minutes
        for long, short in (
            ("interval: 5m", "interval: 1s"),
            ("interval: 30s", "interval: 1s"),
            ("[1799s]) >= 48", "[1799s]) >= 2"),
        ):
            text = text.replace(long, short)
        (tmp_path / name).write_text(text)
    targets = f"static_configs: [{{targets: ['{page}']}}]"
    jobs = [
        f"  - {{job_name: {name}, metrics_path: /{name}, {targets}}}"
        for name in ("first", "second")
    ]
    (tmp_path / "prometheus.yml").write_text(
        "global: {scrape_interval: 1s, evaluation_interval: 1s}\n"
        "rule_files: [recording.yml, alerts.yml]\n"
        "scrape_configs:\n" + "\n".join(jobs) + "\n"
    )
    port = free_port()
    start(
        "prometheus", "--config.file=prometheus.yml", "--storage.tsdb.path=tsdb",
        f"--web.listen-address=127.0.0.1:{port}",
    )  # fmt: skip

    def ask(text: str) -> list[dict]:
        url = f"http://127.0.0.1:{port}/api/v1/query?query={urllib.parse.quote(text)}"
        return json.loads(fetch(url))["data"]["result"]

    wait_until(lambda: ask('ALERTS{alertname="WhyidleIdleHeld", alertstate="firing"}'), 40)
    wait_until(lambda: ask("rate(whyidle_steps_total[5m])"), 20)
    for path in sorted(DEPLOY.glob("grafana/*.json")):
        for panel in json.loads(path.read_text())["panels"]:
            text = panel["targets"][0]["expr"].replace("$host", ".*").replace("$run", ".*")
            assert ask(text), (path.stem, panel["title"], text)
    waiting = {
        one["metric"]["hostname"]: one["value"][1] for one in ask("whyidle:gpus_waiting:sum")
    }
    assert waiting == {"node7": "1", "node8": "1"}


@pytest.mark.skipif(os.geteuid() != 0, reason="munge and slurmd need root")
def test_slurm_names_the_job_and_keeps_its_summary(tmp_path: Path):
    need(*NEEDED)
    mapping, seen = tmp_path / "jobs", tmp_path / "seen"
    whyidle = tmp_path / "whyidle"
    whyidle.write_text(f'#!/bin/sh\necho "$@" >> {seen}\n')
    for name in ("prolog", "epilog", "epilog-slurmctld"):
        script = tmp_path / name
        script.write_text(
            f"#!/bin/sh\nexport WHYIDLE_JOB_MAPPING={mapping} WHYIDLE={whyidle}\n"
            f"export WHYIDLE_EPILOG_DELAY=1 WHYIDLE_CACHE={tmp_path}/cache\n"
            f"exec {DEPLOY}/slurm/{name}.sh\n"
        )
        script.chmod(0o755)
    whyidle.chmod(0o755)
    try:
        env = start_slurm(tmp_path, free_port(), free_port(), more=SLURM.format(folder=tmp_path))
        command = ["sbatch", "--gres=gpu:2", "--mem=10", "--output=/dev/null", "--wrap=sleep 3"]
        told = subprocess.run(command, env=env, check=True, capture_output=True, text=True)
        job = told.stdout.split()[-1]
        wait_until(lambda: mapping.is_dir() and len([*mapping.iterdir()]) == 2, 20)
        assert {path.read_text() for path in mapping.iterdir()} == {f"{job}\n"}
        wait_until(seen.exists, 30)
        assert f"fleet job {job} --line --cache" in seen.read_text()
        wait_until(lambda: not [*mapping.iterdir()], 20)
    finally:
        stop_slurm(tmp_path)
