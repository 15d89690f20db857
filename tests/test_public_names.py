"""What others may build on is listed here, so that it changes on purpose only."""

from __future__ import annotations

import dataclasses

import whyidle
from whyidle import __main__, errors
from whyidle.cli import _app
from whyidle.model import buckets, cause, diagnosis, fix, signals


def options(verb: str) -> set[str]:
    """The option strings of a verb."""
    actions = _app.parser()._subparsers._group_actions[0].choices[verb]._actions  # type: ignore[union-attr,index]
    return {option for action in actions for option in action.option_strings}


def test_python_interface():
    assert whyidle.__all__ == [
        "Comparison",
        "Diagnosis",
        "RunTable",
        "Watch",
        "__version__",
        "compare",
        "explain",
        "load",
        "report",
        "step",
        "watch",
    ]
    for name in whyidle.__all__:
        assert getattr(whyidle, name) is not None
    assert set(whyidle.__all__) <= set(dir(whyidle))


def test_python_objects():
    members = {name for name in vars(whyidle.Diagnosis) if name[0] != "_"}
    assert members == {"from_document", "to_html", "to_json", "to_markdown"}
    assert {name for name in vars(whyidle.Watch) if name[0] != "_"} == {
        "diagnosis",
        "run_id",
        "start",
        "stop",
    }


def test_verbs_and_options():
    common = {"-h", "--help", "--verbose"}
    outputs = {
        "--json",
        "--html",
        "--markdown",
        "--export",
        "--all",
        "-a",
        "--quiet",
        "-q",
        "--store",
    }
    more = {"--perfetto", "--no-store", "--fail-on", "--ranks"}
    assert options("explain") == common | outputs | more
    assert options("report") == common | outputs | {"--fail-on", "--checklist"}
    small = common | {"--json", "--quiet", "-q"}
    assert options("compare") == small | {
        *("--store", "--all", "-a", "--max-regression", "--baseline", "--html", "--markdown"),
    }
    period = {"--since", "--until", "--store"}
    assert options("runs") == small | period | {"--command", "--state", "--device"}
    assert options("history") == small | period | {"--html", "--fail-on"}
    assert options("attach") == common | outputs | {"--no-store", "--fail-on", "--seconds"}
    assert options("causes") == small
    assert options("doctor") == small | {"--store"}
    assert options("alerts") == small | {
        *("--prometheus", "--test", "--mute", "--unmute", "--for", "--store"),
    }
    assert options("watch") == common | {
        *("--once", "--json", "--interval", "--user", "--only", "--fail-on"),
        *("--prometheus", "--textfile", "--otlp", "--alerts", "--store", "--dcgm-names"),
    }


def test_document_keys():
    keys = ["schema", "run", "device", "steps", "attribution", "utilization", "verdict"]
    keys += ["findings", "abstentions", "trials", "coverage", "detail", "recording"]
    keys += ["memory", "architecture"]
    assert list(diagnosis.Diagnosis.__struct_fields__) == keys
    assert diagnosis.SCHEMA == "whyidle/diagnosis/1"
    assert diagnosis.Attribution.__struct_fields__ == (
        *("input", "transfer", "host", "sync", "communication", "interruption"),
        *("compute", "unknown"),
    )
    assert set(buckets.BUCKETS) == set(diagnosis.Attribution.__struct_fields__)


def test_what_plug_ins_build_on():
    assert [f.name for f in dataclasses.fields(cause.Proof)] == [
        *("headline", "low", "high", "predicted", "evidence", "confidence", "where", "facts"),
        *("bucket", "removal"),
    ]
    assert [f.name for f in dataclasses.fields(fix.Proposal)] == [
        *("summary", "edits", "predicted", "risk", "automatic", "faster", "spreads")
    ]
    assert {"device_events", "steps", "shapes", "several_ranks"} <= set(signals.SIGNALS)


def test_exit_statuses():
    assert errors.WhyidleError.exit_code == 1
    assert errors.UsageError.exit_code == 2
    assert errors.GateError.exit_code == 3
    assert callable(__main__.main)
