"""Prove whyidle on this machine's GPU, and write an honest page.

Each stage answers one question. ``results.json`` holds what was measured, which is not measured
again. Without a GPU the same stages are rehearsed on the emulated device, and every number says so.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from bench.gpu import page, requirements, stage
from bench.gpu.target import (
    EMULATED,
    EMULATED_JOB_S,
    GPU_JOB_S,
    ROOT,
    SHORT_JOB_S,
    Target,
    find_cuda,
)


def parse_options(words: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.gpu", description=__doc__)
    for name, options in {
        "--out": {
            "type": Path,
            "default": Path(os.environ.get("OUT") or "build/gpu"),
            "help": "folder of the results (default: $OUT, else build/gpu)",
        },
        "--stage": {
            "dest": "stages",
            "action": "append",
            "choices": stage.NAMES,
            "metavar": "NAME",
            "help": f"run this stage only; several are allowed: {', '.join(stage.NAMES)}",
        },
        "--only": {
            "metavar": "ITEM",
            "help": "run only the items of this name, such as read-in-each-step",
        },
        "--left": {
            "type": float,
            "default": 25.0,
            "metavar": "MINUTES",
            "help": "begin no item that would end later than this (default: 25)",
        },
        "--emulated": {
            "action": "store_true",
            "help": "rehearse on the emulated device although there is a GPU",
        },
        "--short": {
            "action": "store_true",
            "help": "a few items of each stage, for continuous integration",
        },
        "--page": {
            "action": "store_true",
            "help": "run nothing: write the page of the results in the folder, of any device",
        },
        "--again": {
            "action": "store_true",
            "help": "forget the results of the chosen stages first",
        },
    }.items():
        parser.add_argument(name, **options)  # type: ignore[arg-type]
    return parser.parse_args(words)


def choose_target(options: argparse.Namespace) -> Target:
    """The GPU of this machine, or the emulated device."""
    name = "" if options.emulated else find_cuda()
    if name:
        return Target("cuda", name, GPU_JOB_S, options.short, options.out.resolve())
    seconds = SHORT_JOB_S if options.short else EMULATED_JOB_S
    return Target("emulated", EMULATED, seconds, options.short, options.out.resolve())


def describe_mistake(options: argparse.Namespace, target: Target) -> str:
    """What is wrong with the options; empty where nothing is."""
    if target.out.exists() and not target.out.is_dir():
        return f"{target.out} is no folder"
    chosen = map(stage.load_stage, options.stages or stage.NAMES)
    names = [item.name for one in chosen for item in one.items(target)]
    if options.only not in {None, *names}:
        return f"no item is called {options.only}; there are {', '.join(dict.fromkeys(names))}"
    return ""


def main(words: list[str] | None = None) -> int:
    """Run the stages and write the page; 1 when an item failed, 2 when something is missing."""
    options = parse_options(words)
    sys.path.insert(0, str(ROOT / "src"))  # whyidle comes from this checkout
    end = time.monotonic() + options.left * 60
    out = options.out.resolve()
    target = page.find_target(out) if options.page else choose_target(options)
    if target is None:
        print(f"no results in {out}", file=sys.stderr)
        return 2
    if missing := requirements.describe_missing(target.kind):
        print(missing, file=sys.stderr)
        return 2
    if options.page:
        page.write_page(out, target)
        return 0
    if wrong := describe_mistake(options, target):
        print(wrong, file=sys.stderr)
        return 2
    if target.emulated:
        print("No CUDA device here: rehearsing on the emulated device.", flush=True)
    failed = 0
    for name in options.stages or stage.NAMES:
        chosen = stage.load_stage(name)
        if options.again:
            stage.StageResult(name, target.name, target.emulated).store(out)
        result = stage.run_stage(
            chosen,
            target,
            out,
            seconds_left=lambda: end - time.monotonic(),
            report=report_line,
            only=options.only,
        )
        failed += sum(item["status"] == "failed" for item in result.items.values())
        page.write_page(out, target)
    print(f"The page: {out / page.NAME}")
    return 1 if failed else 0


def report_line(text: str) -> None:
    """Progress, at once even into a pipe."""
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
