"""Advice on the machine."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.fix import advice
from whyidle.model.proof_facts import HardwareFacts


def _slow_machine(proof: Proof) -> str:
    facts = proof.get_facts(HardwareFacts)
    where = f"on the machine of rank {facts.rank}: "
    if facts.stopped:
        return (
            f"{where}find out who stops the process (SIGSTOP or SIGTSTP: a batch system that "
            "suspends jobs, a guard against heat or load, a debugger)"
        )
    if facts.cpu:
        return (
            f"{where}`ps -eLo psr,ni,pcpu,pid,comm --sort=-pcpu` shows what runs on its cores, and "
            "at which priority; give every rank cores of its own (`taskset -c`, `srun "
            "--cpus-per-task`)"
        )
    return (
        f"{where}`nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER,ECC`; drain it if it throttles or "
        "shows errors"
    )


ADVICE = (
    advice(
        *("cooler-gpu", "thermal-throttle"),
        title="Cool the GPU",
        doc="Cooling is for the machine's owner to change.",
        summary="look after cooling (nvidia-smi -q -d TEMPERATURE,PERFORMANCE), move the job to "
        "another node, or lower the power limit a little to avoid swings",
        risk="none",
    ),
    advice(
        *("exclusive-gpu", "gpu-contention"),
        title="Have the GPU alone",
        doc="Placement is the scheduler's or the neighbour's to change.",
        summary="run alone on the GPU: another device, exclusive process mode, or a MIG slice of "
        "its own",
        risk="none for this job",
    ),
    advice(
        *("lifted-limits", "power-or-clock-cap"),
        title="Lift the limit",
        doc="Limits are set by administrators, sometimes on purpose; a process may not change "
        "them.",
        summary="ask the administrator whether the limit is meant (nvidia-smi -q -d POWER,CLOCK); "
        "nvidia-smi -pl and -rac lift it",
        risk="more power and heat",
    ),
    advice(
        *("link-check", "pcie-or-nvlink-degraded"),
        title="Look after the link",
        doc="What the link does is for the machine's owner to change; the process can only be "
        "bound to the device's NUMA node.",
        summary="compare the link's present width and generation under load with their maximum "
        "(nvidia-smi -q); run under numactl --cpunodebind of the device's node",
        risk="none",
    ),
    advice(
        *("replace-slow-device", "fail-slow-device"),
        title="Take a slow device out of the job",
        doc="Check the device's clocks, temperature and power, and run the job without it.",
        summary=_slow_machine,
        risk="restarting elsewhere costs the time since the last checkpoint",
    ),
)
