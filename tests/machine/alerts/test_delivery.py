"""When alerts are told: fires, repeats, resolves, and the limit per hour."""

from __future__ import annotations

import time

from whyidle.machine.alerts.alert_watch import Delivering, alert_key
from whyidle.machine.alerts.evaluation import Firing
from whyidle.machine.alerts.rule_file import AlertSettings
from whyidle.model.live.alert import Rule

HOUR = 3600.0
NOON = time.mktime((2026, 11, 25, 12, 0, 0, 0, 0, -1))  # a Wednesday


def firing(uuid: str = "u1", severity: str = "warning") -> Firing:
    rule = Rule(
        id="idle-held", summary="held", of="gpu", signal="s", above=0.5, window_s=60.0,
        severity=severity,
    )  # fmt: skip
    return Firing(rule, {"UUID": uuid, "hostname": "n", "gpu": "0"}, 1.0, NOON)


def explain(one: Firing) -> tuple[str, str]:
    return "input 59 %", "8 workers"


def events(delivering: Delivering, told: list[Firing], when: float) -> list[str]:
    return [one.event for one in delivering.deliver(told, when).notices]


def test_it_fires_once_repeats_and_resolves():
    delivering = Delivering(AlertSettings(repeat_s=4 * HOUR), explain)
    assert events(delivering, [firing()], NOON) == ["fires"]
    assert events(delivering, [firing()], NOON + 60) == []
    assert events(delivering, [firing()], NOON + 4 * HOUR) == ["repeats"]
    assert events(delivering, [], NOON + 5 * HOUR) == ["resolves"]
    assert events(delivering, [], NOON + 6 * HOUR) == []


def test_a_notice_carries_the_cause_and_the_first_fix():
    (notice,) = Delivering(AlertSettings(), explain).deliver([firing()], NOON).notices
    assert notice.text == ("[FIRING] idle-held GPU 0 on n: held: input 59 % (try: 8 workers)")


def test_alerts_of_gpus_are_told_apart():
    delivering = Delivering(AlertSettings(), explain)
    assert events(delivering, [firing("u1")], NOON) == ["fires"]
    assert events(delivering, [firing("u1"), firing("u2")], NOON + 60) == ["fires"]
    assert alert_key(firing("u1")) != alert_key(firing("u2"))


def test_the_gravest_are_told_first_and_the_rest_is_counted():
    delivering = Delivering(AlertSettings(most_per_hour=2), explain)
    many = [firing(f"u{n}", "info") for n in range(4)] + [firing("x", "critical")]
    first = delivering.deliver(many, NOON)
    assert [one.rule.severity for one in first.notices] == ["critical", "info"]
    assert first.held_back == 3
    later = delivering.deliver([*many, firing("new")], NOON + HOUR + 1)
    assert [one.labels["UUID"] for one in later.notices] == ["new"]
