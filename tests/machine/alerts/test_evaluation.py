"""Rules are evaluated as documented, and as Prometheus evaluates the same rules."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from whyidle.machine.alerts.evaluation import Evaluator, samples_needed
from whyidle.machine.alerts.prometheus_rules import alert_name, expression, write_rules
from whyidle.machine.alerts.rule_file import load_shipped
from whyidle.model.live.alert import Rule
from whyidle.model.live.metric_series import Metric

MINUTE = 60.0
LOW = Rule(
    id="low", summary="low", of="gpu", signal="busy", reduce="mean", below=0.3, window_s=600,
)  # fmt: skip


def feed(rule: Rule, values: list[float | None], guard: list[float | None] | None = None):
    """The minutes at which the rule fires for one series."""
    evaluator = Evaluator([rule], MINUTE)
    fired = []
    for minute, value in enumerate(values):
        now = minute * MINUTE
        rows = [({"UUID": "a"}, value)] if value is not None else []
        metrics = [Metric("busy", "gauge", "", rows)]
        if guard is not None and guard[minute] is not None:
            metrics.append(Metric("used", "gauge", "", [({"UUID": "a", "x": "y"}, guard[minute])]))
        evaluator.add_samples(now, metrics)
        fired += [minute for _ in evaluator.evaluate(now)]
    return fired


def test_history_is_demanded():
    assert feed(LOW, [0.0] * 7) == []
    assert feed(LOW, [0.0] * 12) == [7, 8, 9, 10, 11]  # 8 of 10 samples


def test_missing_samples_are_unknown_and_never_zero():
    assert feed(LOW, [0.0] * 10 + [None] * 4) == [7, 8, 9, 10, 11]
    assert feed(LOW, [None] * 20) == []


def test_nothing_fires_above_the_threshold():
    assert feed(LOW, [0.3] * 20) == []
    assert feed(LOW, [0.9] * 10 + [0.0] * 10)[0] == 16  # three of ten samples were busy


def test_it_must_last():
    lasting = msgspec.structs.replace(LOW, for_s=180.0)
    assert feed(lasting, [0.0] * 12) == [10, 11]
    assert feed(lasting, [0.0] * 9 + [9.0] + [0.0] * 3) == []


def test_a_guard_must_hold_in_the_whole_window():
    guarded = msgspec.structs.replace(LOW, guard="used")
    values = [0.0] * 20
    assert feed(guarded, values, [1.0] * 20)[0] == 7
    assert feed(guarded, values, [1.0] * 8 + [0.0] + [1.0] * 11) == [7, 18, 19]
    assert feed(guarded, values, [None] * 20) == []


def test_growth_and_rise():
    growth = msgspec.structs.replace(LOW, reduce="growth", below=None, above=0.0, coverage=0.1)
    assert feed(growth, [5.0, 5.0, 6.0, 6.0]) == [2, 3]
    rise = msgspec.structs.replace(LOW, reduce="rise", below=None, above=1.2, window_s=480.0)
    assert feed(rise, [100.0 + 10 * n for n in range(12)]) == [6, 7, 8, 9, 10, 11]
    assert feed(rise, [100.0 + 10 * (n % 4) for n in range(12)]) == []


@pytest.mark.parametrize("rule", load_shipped(), ids=lambda rule: rule.id)
def test_the_shipped_rules_are_whole(rule: Rule):
    from whyidle import catalog  # noqa: PLC0415

    assert rule.cause is None or rule.cause in catalog.load_causes()
    assert rule.signal in expression(rule, 30.0)
    assert samples_needed(rule, 30.0) >= 1


def random_rules(rng: random.Random) -> list[Rule]:
    """Shipped rules and random ones, over few signals so that series meet several rules."""
    made = []
    for number in range(12):
        reduction = ["mean", "least", "most", "growth", "rise"][number % 5]
        high = rng.random() < 0.5 or reduction in ("growth", "rise")
        threshold = rng.choice([0.25, 0.5, 0.75]) if reduction != "rise" else 1.25
        if reduction == "mean":  # which is never this: engines round a tie differently
            threshold += 0.01
        made.append(
            Rule(
                id=f"random-{number}", summary="s", of=rng.choice(["gpu", "run"]),
                signal=f"signal_{'abc'[number % 3]}", reduce=reduction,
                above=threshold if high else None, below=None if high else threshold,
                window_s=rng.choice([240.0, 480.0, 1200.0]), for_s=rng.choice([0.0, 60.0, 180.0]),
                coverage=rng.choice([0.25, 0.5, 0.8, 1.0]),
                guard=rng.choice([None, None, "signal_guard"]),
                labels=rng.choice([{}, {"state": "x"}]),
            )
        )  # fmt: skip
    return made


def random_values(rng: random.Random, length: int) -> list[float | None]:
    """Levels that hold for a while, with gaps."""
    values: list[float | None] = []
    while len(values) < length:
        level, lasts = rng.randint(0, 16) / 16, rng.randint(1, 25)
        gap = rng.random() < 0.15
        steady = rng.random() < 0.7
        values += [
            None if gap else level if steady else rng.randint(0, 16) / 16 for _ in range(lasts)
        ]
    return values[:length]


@pytest.mark.services
@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs Debian's package prometheus")
def test_prometheus_fires_at_the_same_moments(tmp_path: Path):
    """240 random series through both engines: what fires, with its labels, at 16 moments."""
    rng, length = random.Random(41), 90
    rules = random_rules(rng)
    series: list[tuple[str, dict[str, str], list[float | None]]] = []
    for number in range(240):
        name = rng.choice(["signal_a", "signal_b", "signal_c", "signal_guard"])
        labels = {"UUID": f"u{number % 80}", "run": f"r{number % 80}", "hostname": "h"}
        labels |= rng.choice([{}, {"state": "x"}, {"state": "y", "GPU_I_ID": "1"}])
        series.append((name, {**labels, "series": str(number)}, random_values(rng, length)))
    moments = sorted(rng.sample(range(3, length), 16))
    evaluator, ours = Evaluator(rules, MINUTE), {}
    for minute in range(length):
        known = [(n, labels, v[minute]) for n, labels, v in series if v[minute] is not None]
        metrics = [Metric(name, "gauge", "", [(labels, value)]) for name, labels, value in known]
        evaluator.add_samples(minute * MINUTE, metrics)
        ours[minute] = evaluator.evaluate(minute * MINUTE)
    assert sum(len(ours[minute]) for minute in moments) > 100  # and it is no empty comparison
    assert len({one.rule.id for minute in moments for one in ours[minute]}) >= 9
    test = {
        "rule_files": ["rules.yml"],
        "evaluation_interval": "1m",
        "tests": [
            {
                "interval": "1m",
                "input_series": [
                    {
                        "series": name + selector(labels),
                        "values": " ".join("_" if one is None else repr(one) for one in values),
                    }
                    for name, labels, values in series
                ],
                "alert_rule_test": [
                    {
                        "eval_time": f"{minute}m",
                        "alertname": alert_name(rule),
                        "exp_alerts": [
                            {
                                "exp_labels": {
                                    **one.labels,
                                    "severity": rule.severity,
                                    "rule": rule.id,
                                },
                                "exp_annotations": {"summary": summary(rule, one.labels)},
                            }
                            for one in ours[minute]
                            if one.rule.id == rule.id
                        ],
                    }
                    for minute in moments
                    for rule in rules
                ],
            }
        ],
    }
    (tmp_path / "rules.yml").write_text(write_rules(rules, MINUTE))
    (tmp_path / "test.yml").write_text(json.dumps(test))  # JSON is YAML
    done = subprocess.run(
        ["promtool", "test", "rules", "test.yml"],
        cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, (done.stdout + done.stderr)[:3000]


def selector(labels: dict[str, str]) -> str:
    return "{" + ", ".join(f"{name}={json.dumps(text)}" for name, text in labels.items()) + "}"


def summary(rule: Rule, labels) -> str:
    subject = labels["run"] if rule.of == "run" else f"GPU {labels.get('gpu', '')}"
    return f"{subject} on {labels['hostname']}: {rule.summary}"


@pytest.mark.services
@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs Debian's package prometheus")
def test_promtool_accepts_the_shipped_rules(tmp_path: Path):
    path = tmp_path / "rules.yml"
    path.write_text(write_rules(load_shipped(), 30.0))
    done = subprocess.run(
        ["promtool", "check", "rules", str(path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert f"{len(load_shipped())} rules found" in done.stdout
