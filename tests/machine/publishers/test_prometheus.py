"""The page that Prometheus scrapes."""

from __future__ import annotations

import re
import shutil
import subprocess
import urllib.error
import urllib.request

import pytest

from whyidle.errors import OutputError, UsageError
from whyidle.machine.publishers import prometheus
from whyidle.machine.publishers.prometheus import format_page
from whyidle.model.live.metric_series import SeriesBuilder
from whyidle.model.live.publisher import Destination

SECRET = "s3cret"


def fetch(port: int, path: str = "/metrics", token: str = "") -> str:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
    with urllib.request.urlopen(request, timeout=5) as answer:
        return answer.read().decode()


def values(page: str, name: str) -> dict[str, float]:
    rows = re.findall(rf"^{name}\{{(.*)\}} (\S+)$", page, re.MULTILINE)
    return {labels: float(value) for labels, value in rows}


def test_a_page_is_served_and_ends(look):
    page = prometheus.open(Destination(where="0"))
    page.publish(look(), SeriesBuilder().add_look(look()))
    text = fetch(page.port)
    assert values(text, "whyidle_gpu_busy_ratio") == {
        'gpu="0",UUID="GPU-1",pci_bus_id="00000000:01:00.0",hostname="node7",'
        r'model_name="H100 \"80GB\"",namespace="a",pod="train-0"': 0.3
    }
    with pytest.raises(urllib.error.HTTPError, match="404"):
        fetch(page.port, "/runs")
    page.close(None)
    with pytest.raises(urllib.error.URLError):
        fetch(page.port)


def test_what_was_not_measured_is_no_series(look):
    text = format_page(SeriesBuilder().add_look(look()))
    assert "whyidle_gpu_tensor_active_ratio" not in text


def test_places_add_up_to_watched_time(look, monkeypatch):
    clock = iter([100.0, 105.0, 111.0])
    monkeypatch.setattr("time.monotonic", clock.__next__)
    built = SeriesBuilder()
    built.add_look(look(shares=False))
    built.add_look(look(shares=False))
    page = format_page(built.add_look(look(steps=160)))
    places = values(page, "whyidle_step_time_seconds_total")
    assert len(places) == 8
    assert sum(places.values()) == pytest.approx(11.0)
    unknown = next(v for labels, v in places.items() if 'place="unknown"' in labels)
    assert unknown == pytest.approx(5.0 + 0.6)
    assert list(values(page, "whyidle_samples_total").values()) == [pytest.approx(60 * 32.0)]


def test_no_label_tells_a_command_a_path_or_a_process(look):
    text = format_page(SeriesBuilder().add_look(look()))
    assert "train.py" not in text
    assert not re.search(r"\b(pid|command|user|path)=", text)


def test_other_addresses_want_a_token(look):
    with pytest.raises(UsageError, match="no token"):
        prometheus.open(Destination(where="0.0.0.0:0"))
    page = prometheus.open(Destination(where="0.0.0.0:0", environ={prometheus.TOKEN: SECRET}))
    page.publish(look(), SeriesBuilder().add_look(look()))
    with pytest.raises(urllib.error.HTTPError, match="401"):
        fetch(page.port)
    with pytest.raises(urllib.error.HTTPError, match="401"):
        fetch(page.port, token="other")
    assert "whyidle_gpu_busy_ratio" in fetch(page.port, token=SECRET)
    page.close(None)


def test_a_port_that_is_taken_or_none():
    page = prometheus.open(Destination(where="0"))
    with pytest.raises(OutputError, match="Cannot listen"):
        prometheus.open(Destination(where=str(page.port)))
    page.close(None)
    with pytest.raises(UsageError, match="PORT"):
        prometheus.open(Destination(where="http"))


@pytest.mark.services
@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs Debian's package prometheus")
def test_promtool_finds_nothing_to_correct(look):
    page = format_page(SeriesBuilder().add_look(look()))
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=page, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
