"""What there is, whether it works, and whether a cure changes no more than it may."""

from __future__ import annotations

import argparse

import msgspec

from clinic import guard, runs
from clinic.times import JobError
from clinic.verbs import FAILED
from clinic.verbs._chosen import chosen, startable


def listed(args: argparse.Namespace) -> int:
    """What cases there are"""
    for case, _ in chosen(args):
        truth = " + ".join(fault.cause or fault.locus for fault in case.inject)
        print(f"{case.id}  {case.kind:8} {case.level:7} {case.workload:10} {truth}")
    return 0


def tried(args: argparse.Namespace) -> int:
    """1 second of every arm alone: does it work, how long are its steps"""
    status = 0
    for case, mode in startable(args):
        brief = msgspec.structs.replace(case.budget, arm_s=1.0)
        case = msgspec.structs.replace(case, budget=brief)  # noqa: PLW2901
        for name, cured in case.arms().items():
            options = {**case.arm(cured), **({case.onset: 0.0} if case.onset else {})}
            try:
                times = runs.alone(case, options, mode)
                start, count = times.marks[0] - times.begin, len(times.marks)
                each = (times.marks[-1] - times.marks[0]) / max(count - 1, 1)
                said = f"{each * 1e3:8.1f} ms a step, {count} steps, first after {start:.1f} s"
            except JobError as error:
                status, said = FAILED, f"failed: {error}"
            print(f"{case.id} {case.workload:8} {name:8} {said}", flush=True)
    return status


def guarded(args: argparse.Namespace) -> int:
    """The same steps sick and cured: does a cure change the numbers no more than it may"""
    status = 0
    for case, mode in startable(args):
        try:
            good, said = guard.held(case, mode)
        except JobError as error:
            good, said = False, f"failed: {error}"
        status = status if good else FAILED
        print(f"{'+' if good else '-'} {case.id} {case.workload:8} {said}", flush=True)
    return status
