"""`whyidle fleet act`."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from whyidle.__main__ import main

pytest.importorskip("duckdb")


def moments(minutes: float) -> str:
    moment = datetime.now(timezone.utc) - timedelta(minutes=minutes)
    return moment.isoformat(timespec="seconds").replace("+00:00", "Z")


@pytest.fixture
def idle() -> list[str]:
    """A job that has held a GPU for three hours without a kernel, and a busy one."""
    Path("jobs.csv").write_text(
        "job,user,state,start,end,gpus,node,gpu_ids\n"
        f"1,ann,running,{moments(180)},,1,n,0\n2,bob,running,{moments(180)},,1,n,1\n"
    )
    lines = ["time,node,gpu,busy,memory_bytes"]
    for minute in range(180, 0, -1):
        lines += [f"{moments(minute)},n,0,0,40e9", f"{moments(minute)},n,1,0.9,40e9"]
    Path("readings.csv").write_text("\n".join(lines))
    Path("policy.toml").write_text(
        'enforce = true\nnotify = ["tee", "-a", "told"]\n[[rule]]\nidle_s = 7200\n'
    )
    return ["fleet", "act", "--ledger", "csv:jobs.csv", "--meter", "csv:readings.csv",
            "--since", "4h", "--policy", "policy.toml"]  # fmt: skip


def test_act_says_what_it_would_do_and_does_it_only_with_consent(idle, capsys):
    assert main([*idle, "--json", "plan.json"]) == 0
    shown = capsys.readouterr().out
    assert "only --yes carries them out" in shown
    plan = json.loads(Path("plan.json").read_text())
    assert [(action["verb"], action["job"]) for action in plan["actions"]] == [("warn", "1")]
    assert not Path("told").exists()
    assert main([*idle, "--yes"]) == 0
    assert json.loads(Path("told").read_text())["user"] == "ann"
    assert main([*idle, "--yes"]) == 0  # a second warning at once is none
    assert Path("told").read_text().count("\n") + 1 <= 2
    capsys.readouterr()


def test_act_refuses_old_telemetry_and_policies_that_allow_nothing(idle, capsys):
    lines = Path("readings.csv").read_text().splitlines()
    Path("readings.csv").write_text("\n".join(lines[: len(lines) // 2]))
    assert main([*idle, "--yes"]) == 1
    assert "No action is taken" in capsys.readouterr().out
    assert not Path("told").exists()
    Path("policy.toml").write_text("[[rule]]\n")
    assert main([*idle, "--yes"]) == 2
    assert "enforce = true" in capsys.readouterr().err
