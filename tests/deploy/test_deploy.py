"""What `deploy` installs: every name, command line and unit in it exists."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from whyidle.cli import _app
from whyidle.machine.alerts.prometheus_rules import write_rules
from whyidle.machine.alerts.rule_file import AlertSettings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
DASHBOARDS = sorted(DEPLOY.glob("grafana/*.json"))
UNITS = sorted(DEPLOY.glob("systemd/*"))
METRICS = (ROOT / "src/whyidle/model/live/metric_series.py").read_text()
RECORDING = yaml.safe_load((DEPLOY / "prometheus/recording.yml").read_text())


def manifests() -> list[dict]:
    files = yaml.safe_load((DEPLOY / "kubernetes/kustomization.yaml").read_text())["resources"]
    texts = [(DEPLOY / "kubernetes" / name).read_text() for name in files]
    return [one for text in texts for one in yaml.safe_load_all(text)]


def pod_specs() -> Iterator[dict]:
    for one in manifests():
        spec = one.get("spec", {})
        spec = spec.get("jobTemplate", {}).get("spec", spec)
        if "template" in spec:
            yield spec["template"]["spec"]


def need(program: str) -> str:
    return shutil.which(program) or pytest.skip(f"{program} is not installed")


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_a_dashboard_names_only_metrics_that_exist(path: Path):
    board = json.loads(path.read_text())
    recorded = {rule.get("record") for group in RECORDING["groups"] for rule in group["rules"]}
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    asked += [one["query"] for one in board["templating"]["list"] if one["type"] == "query"]
    for text in asked:
        names = re.findall(r"\b(?:whyidle|gpu)[\w:]*(?=[\[{,)])", text)
        assert names or text.startswith("ALERTS{")
        for name in names:
            assert name in recorded or f'"{name}"' in METRICS, name
    assert {panel["datasource"]["uid"] for panel in board["panels"]} == {"$source"}
    places = {(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in board["panels"]}
    assert len(places) == len(board["panels"]) == len({one["id"] for one in board["panels"]})


def test_alert_rules_are_those_that_whyidle_evaluates():
    settings = AlertSettings()
    written = write_rules(settings.active_rules(), settings.interval_s)
    assert (DEPLOY / "prometheus/alerts.yml").read_text() == written, (
        "whyidle alerts --rules deploy/prometheus/alerts.yml"
    )


@pytest.mark.parametrize("name", ["recording.yml", "alerts.yml"])
def test_promtool_accepts_the_rules(name: str):
    command = [need("promtool"), "check", "rules", str(DEPLOY / "prometheus" / name)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def command_lines() -> Iterator[list[str]]:
    """The arguments of `whyidle` in units and manifests."""
    for unit in UNITS:
        for line in re.findall(r"^ExecStart=\S+/whyidle (.*)$", unit.read_text(), re.MULTILINE):
            options = {
                "$SERVE_OPTIONS": "--name h",
                "$FLEET_OPTIONS": "--ledger slurm --meter prometheus:http://prom:9090",
            }
            words = shlex.split(line)
            yield [part for word in words for part in shlex.split(options.get(word, word))]
    for spec in pod_specs():
        yield from (container["args"] for container in spec["containers"])
    container = (DEPLOY / "Containerfile").read_text()
    yield json.loads(re.findall(r"^CMD (.*)$", container, re.MULTILINE)[-1])
    scripts = (DEPLOY / "slurm/epilog-slurmctld.sh").read_text().replace("\\\n", "")
    yield shlex.split(re.findall(r'"\$WHYIDLE" (.*)\) &&$', scripts, re.MULTILINE)[0])


@pytest.mark.parametrize("words", [*command_lines()], ids=" ".join)
def test_command_lines_are_understood(words: list[str]):
    assert _app.parser().parse_args(words).verb == words[0]


def test_systemd_accepts_the_units(tmp_path: Path):
    verify = need("systemd-analyze")
    for unit in UNITS:  # the program is not installed where this is tested
        text = unit.read_text().replace("/opt/whyidle/bin/whyidle", "/bin/true")
        (tmp_path / unit.name).write_text(text)
    command = [verify, "verify", *map(str, sorted(tmp_path.iterdir()))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_the_cluster_gives_no_more_than_is_needed():
    rules = [rule for one in manifests() for rule in one.get("rules", [])]
    assert rules == [
        {"apiGroups": [""], "resources": ["pods", "nodes"], "verbs": ["get", "list", "watch"]}
    ]
    for spec in pod_specs():
        asks_api = "serviceAccountName" in spec
        assert asks_api or spec["automountServiceAccountToken"] is False
        for container in spec["containers"]:
            security = container["securityContext"]
            assert security["allowPrivilegeEscalation"] is False
            assert security["readOnlyRootFilesystem"] is True
            assert security["capabilities"] == {"drop": ["ALL"]}
            assert "limits" in container["resources"]
            as_root = {**spec.get("securityContext", {}), **security}.get("runAsUser") == 0
            assert as_root == spec.get("hostPID", False)  # only the exporter
            mounted = {one["name"] for one in container["volumeMounts"]}
            assert mounted == {one["name"] for one in spec["volumes"]}


def test_selectors_meet_their_pods_and_kustomize_joins_them():
    for one in manifests():
        template = one.get("spec", {}).get("template", {}).get("metadata", {})
        wanted = one.get("spec", {}).get("selector", {}).get("matchLabels", {})
        assert wanted.items() <= template.get("labels", {}).items() or one["kind"] == "Service"
    command = [need("kubectl"), "kustomize", str(DEPLOY / "kubernetes")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    joined = list(yaml.safe_load_all(done.stdout))
    assert {one["metadata"].get("namespace") for one in joined if one["kind"] == "Secret"} == {
        "whyidle"
    }
    assert "image: whyidle\n" not in done.stdout


def test_the_container_runs_as_nobody_in_particular():
    text = (DEPLOY / "Containerfile").read_text()
    users = re.findall(r"^USER (\d+):(\d+)$", text, re.MULTILINE)
    assert users == [("10470", "10470")]
    assert re.search(r"^HEALTHCHECK .*\\\n  CMD \[", text, re.MULTILINE)
    extras = re.search(r"\)\[([\w,]+)\]", text)
    assert extras is not None
    declared = (ROOT / "pyproject.toml").read_text()
    assert all(f"\n{extra} = [" in declared for extra in extras[1].split(","))


def test_the_prolog_names_jobs_and_the_epilog_forgets_them(tmp_path: Path):
    folder = tmp_path / "jobs"

    def call(script: str, job: int, gpus: str) -> None:
        names = {"SLURM_JOB_ID": f"{job}", "SLURM_JOB_GPUS": gpus}
        environ = {**os.environ, "WHYIDLE_JOB_MAPPING": str(folder), **names}
        subprocess.run([str(DEPLOY / "slurm" / script)], env=environ, check=True)

    call("prolog.sh", 7, "0,2")
    call("prolog.sh", 8, "2")  # which shares it
    call("prolog.sh", 9, "../x,")
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"0": "7\n", "2": "7\n8\n"}
    call("epilog.sh", 7, "0,2")
    assert {path.name: path.read_text() for path in folder.iterdir()} == {"2": "8\n"}
    call("epilog.sh", 8, "2,5")
    assert not [*folder.iterdir()]
