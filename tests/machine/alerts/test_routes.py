"""Every route delivers, and refuses settings that it does not understand."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jsonschema
import pytest

from whyidle import catalog
from whyidle.errors import MissingExtraError, UsageError
from whyidle.machine.alerts.routes import command, stdout
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
    return Delivery(notices=notices, held_back=held)


CHECK = jsonschema.Draft202012Validator(make_schema("alert"))


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


def test_a_command_gets_json_and_no_shell(tmp_path: Path):
    target = tmp_path / "got.json"
    code = f"import sys; open({str(target)!r}, 'w').write(sys.stdin.read())"
    command.open({"argv": [sys.executable, "-c", code]}).publish(delivery(notice()))
    body = json.loads(target.read_text())
    (alert,) = body["alerts"]
    CHECK.validate(alert)
    assert alert["cause"] == "input; rm -rf /"
    assert body["text"].startswith("[FIRING] idle-held")
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
        ("command", {}, "needs the setting 'argv'"),
        ("command", {"argv": ["true"], "colour": "red"}, "no setting 'colour'"),
        ("command", {"argv": "rm -rf /"}, "a list of words"),
        ("stdout", {"format": "$NOT_SET_HERE"}, "NOT_SET"),
    ],
)
def test_settings_that_cannot_work_are_refused(kind, settings, problem):
    with pytest.raises(UsageError, match=problem):
        catalog.plugin_module("alerts.routes", kind).open(settings)
