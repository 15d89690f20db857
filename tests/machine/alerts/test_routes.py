"""Every route delivers to a real receiver, and refuses settings that it does not understand."""

from __future__ import annotations

import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import jsonschema
import pytest

from whyidle import catalog
from whyidle.errors import MissingExtraError, UsageError
from whyidle.machine.alerts.routes import command, stdout, webhook
from whyidle.model.live.alert import Delivery, Notice, Rule
from whyidle.model.schema import make_schema

RULE = Rule(
    id="idle-held", summary="held", of="gpu", signal="s", above=0.5, window_s=60.0, cause="x",
)  # fmt: skip


def notice(event: str = "fires", uuid: str = "u1") -> Notice:
    return Notice(
        key=f"idle-held/{uuid}", rule=RULE, event=event, value=1.0, since=1e9, when=1e9 + 60,
        labels={"UUID": uuid, "gpu": "0", "hostname": "n"}, cause="input; rm -rf /", fix="workers",
    )  # fmt: skip


def delivery(*notices: Notice, held: int = 0) -> Delivery:
    told = [one for one in notices if one.event != "resolves"]
    return Delivery(notices=notices, firing=told, held_back=held)


CHECK = jsonschema.Draft202012Validator(make_schema("alert"))


@pytest.fixture
def hook():
    got = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            got.append((self.path, json.loads(body)))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}", got
    server.shutdown()
    server.server_close()


def test_standard_output(capsys):
    stdout.open({"kind": "stdout"}).publish(delivery(notice(), held=3))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("[FIRING] idle-held GPU 0 on n: held")
    assert lines[1] == "and 3 more notices were held back"


def test_standard_output_in_json(capsys):
    route = stdout.open({"kind": "stdout", "format": "json"})
    route.publish(delivery(notice(), notice("resolves", "u2"), held=3))
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for line in lines:
        CHECK.validate(line)
    assert [line["event"] for line in lines] == ["fires", "resolves"]
    assert lines[0]["cause"] == "input; rm -rf /"
    with pytest.raises(UsageError, match="yaml"):
        stdout.open({"kind": "stdout", "format": "yaml"})


def test_a_webhook_in_alertmanager_s_json(hook):
    url, got = hook
    route = webhook.open({"kind": "webhook", "url": url})
    route.publish(delivery(notice(), notice("resolves", "u2")))
    route.publish(delivery())
    ((_, body),) = got
    assert (body["version"], body["status"], len(body["alerts"])) == ("4", "firing", 2)
    first, second = body["alerts"]
    assert first["labels"]["alertname"] == "WhyidleIdleHeld"
    assert first["annotations"]["cause"].startswith("input")
    assert second["status"] == "resolved"
    assert second["endsAt"] > second["startsAt"]


def test_a_webhook_for_slack(hook):
    url, got = hook
    webhook.open({"url": url, "format": "slack"}).publish(delivery(notice(), held=1))
    assert got[0][1]["text"].splitlines()[1] == "and 1 more notices"


def test_a_command_gets_json_and_no_shell(tmp_path: Path):
    target = tmp_path / "got.json"
    code = f"import sys; open({str(target)!r}, 'w').write(sys.stdin.read())"
    command.open({"argv": [sys.executable, "-c", code]}).publish(delivery(notice()))
    (alert,) = json.loads(target.read_text())["alerts"]
    assert alert["annotations"]["cause"] == "input; rm -rf /"
    with pytest.raises(command.FAULTS):
        command.open({"argv": [sys.executable, "-c", "exit(1)"]}).publish(delivery(notice()))


def test_apprise_is_an_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "apprise", None)
    route = catalog.plugin_module("alerts.routes", "apprise")
    with pytest.raises(MissingExtraError, match=r"whyidle\[apprise\]"):
        route.open({"urls": []})


@pytest.mark.parametrize(
    ("kind", "settings", "problem"),
    [
        ("webhook", {}, "needs the setting 'url'"),
        ("webhook", {"url": "file:///etc/passwd"}, "needs an HTTP or HTTPS URL"),
        ("webhook", {"url": "http://x", "colour": "red"}, "no setting 'colour'"),
        ("webhook", {"url": "http://x", "format": "xml"}, "xml"),
        ("command", {"argv": "rm -rf /"}, "a list of words"),
        ("webhook", {"url": "$NOT_SET_HERE"}, "NOT_SET"),
    ],
)
def test_settings_that_cannot_work_are_refused(kind, settings, problem):
    with pytest.raises(UsageError, match=problem):
        catalog.plugin_module("alerts.routes", kind).open(settings)
