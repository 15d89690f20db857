"""Advice on the machine."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.fix import advice
from whyidle.model.proof_facts import HardwareFacts


def _examine_machine(proof: Proof) -> str:
    facts = proof.get_facts(HardwareFacts)
    where = f"on the machine of rank {facts.rank}: "
    if facts.cpu:
        return (
            f"{where}`ps -eLo psr,ni,pcpu,pid,comm --sort=-pcpu` shows what runs on its cores, and "
            "at which priority; give each rank its own cores (`taskset -c`, `srun --cpus-per-task`)"
        )
    return (
        f"{where}`nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER,ECC`; drain it if it throttles or "
        "shows errors"
    )


ADVICE = (
    advice(
        *("cooler-gpu", "thermal-throttle"),
        title="Cool the GPU",
        doc="Only the owner of the machine can change its cooling.",
        summary="check the cooling (nvidia-smi -q -d TEMPERATURE,PERFORMANCE), move the job to "
        "another node, or lower the power limit a little to avoid swings",
        risk="none",
    ),
    advice(
        *("exclusive-gpu", "gpu-contention"),
        title="Use the GPU exclusively",
        doc="Only the scheduler or the owner of the other job can change the placement.",
        summary="use the GPU exclusively: another device, exclusive process mode, or a separate "
        "MIG slice",
        risk="none for this job",
    ),
    advice(
        *("lifted-limits", "power-or-clock-cap"),
        title="Lift the limit",
        doc="Administrators set limits, sometimes on purpose; a process cannot change them.",
        summary="ask the administrator whether the limit is intended (nvidia-smi -q -d "
        "POWER,CLOCK); nvidia-smi -pl and -rac lift it",
        risk="more power and heat",
    ),
    advice(
        *("link-check", "pcie-or-nvlink-degraded"),
        title="Check the link",
        doc="Only the owner of the machine can repair the link; a user can bind the process to the "
        "device's NUMA node.",
        summary="compare the link's width and generation under load with their maximum "
        "(nvidia-smi -q); run under numactl --cpunodebind of the device's node",
        risk="none",
    ),
    advice(
        *("replace-slow-device", "fail-slow-device"),
        title="Remove a slow device from the job",
        doc="Check the device's clocks, temperature and power, and run the job without it.",
        summary=_examine_machine,
        risk="restarting elsewhere costs the time since the last checkpoint",
    ),
)
