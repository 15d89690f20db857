"""How far the emulated device can be trusted: shares of the same jobs on it and on the real one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

from bench.gpu.stage import Item, SkippedError, Stage, StageResult
from bench.gpu.stages.attribution import LONGER, NAMES, START_S, compare_accounts
from bench.gpu.target import EMULATED, Target
from bench.gpu.twins import Twin, find_twin

LEAST_SHARE = 0.005
EMULATED_S, EMULATED_START_S = 2.5, 10.0
"""seconds that a job trains on the emulated device, and what that takes beyond, with the reading of
the trace: a GPU is paid for meanwhile"""
CAN_EMULATE = "import torch, emulator.device; torch.zeros(1, device='emulated')"


def compare_devices(target: Target, twin: Twin) -> dict[str, Any]:
    """One job on both devices, each with the sizes that suit it."""
    if target.emulated:
        raise SkippedError("there is no real device here to compare with")
    emulated = replace(target, kind="emulated", name=EMULATED, job_s=EMULATED_S)
    check_emulator(emulated)
    real = find_accounts(target, twin) or compare_accounts(target, twin)
    return {
        "real": _describe_shares(target, twin, real),
        "emulated": _describe_shares(emulated, twin, compare_accounts(emulated, twin)),
    }


def find_accounts(target: Target, twin: Twin) -> dict[str, Any] | None:
    """What the stage ``attribution`` has already found of a job on this device."""
    known = StageResult.load("attribution", target, target.out).items.get(twin.name, {})
    return known.get("result")


def check_emulator(emulated: Target) -> None:
    """Whether this PyTorch can have the emulated device.

    Raises:
        SkippedError: it cannot.
    """
    done = subprocess.run(
        [sys.executable, "-c", CAN_EMULATE],
        env=emulated.environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    if done.returncode:
        last = done.stderr.strip().splitlines()[-1:] or ["no output"]
        raise SkippedError(f"no emulated device with this PyTorch (it needs 2.9): {last[0]}")


def _describe_shares(target: Target, twin: Twin, accounts: dict[str, Any]) -> dict[str, Any]:
    return {
        "options": " ".join(twin.options(target, cured=False)),
        "shares": accounts["shares_by_trace"],
        "steps": accounts["same_steps"]["steps"],
    }


def list_items(target: Target) -> list[Item]:
    """One item per job."""
    twins = map(find_twin, NAMES[: 1 if target.short else None])
    return [
        Item(twin.name, partial(compare_devices, target, twin), _estimate_cost(target, twin))
        for twin in twins
    ]


def _estimate_cost(target: Target, twin: Twin) -> float:
    if target.emulated:
        return 0.0
    known = find_accounts(target, twin) is not None
    return (
        LONGER * EMULATED_S + EMULATED_START_S + (0.0 if known else LONGER * target.job_s + START_S)
    )


def table_lines(results: dict[str, dict[str, Any]]) -> Iterator[str]:
    """Shares of the step on both, and the difference in points."""
    yield (
        "The same scripts with the same defects, each device with the sizes that suit it, listed "
        "below: computing is far slower on the emulated device. Shares are whyidle's reading of a "
        "trace of consecutive steps."
    )
    yield ""
    yield "| job | bucket | real | emulated | points |"
    yield "|---|---|--:|--:|--:|"
    for name, result in results.items():
        real, emulated = result["real"]["shares"], result["emulated"]["shares"]
        for bucket in real:
            if max(real[bucket], emulated[bucket]) >= LEAST_SHARE:
                points = 100 * (emulated[bucket] - real[bucket])
                yield (
                    f"| {name} | {bucket} | {real[bucket]:.1%} | {emulated[bucket]:.1%} "
                    f"| {points:+.1f} |"
                )
    yield ""
    for name, result in results.items():
        for device in ("real", "emulated"):
            run = result[device]
            yield f"* {name}, {device}: {run['steps']} steps, `{run['options']}`"


STAGE = Stage("emulator", "The emulated device against the real one", list_items, table_lines)
