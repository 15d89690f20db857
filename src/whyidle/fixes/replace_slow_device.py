"""Take a slow device out of the job."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.fix import Proposal, fix


@fix("fail-slow-device", consent="none")
def replace_slow_device(proof: Proof) -> Proposal | None:
    """Check the device's clocks, temperature and power, and run the job without it."""
    rank = proof.facts.get("rank")
    if proof.facts.get("stopped"):
        return Proposal(
            summary=f"on the machine of rank {rank}: find out who stops the process (SIGSTOP or "
            "SIGTSTP: a batch system that suspends jobs, a guard against heat or load, a debugger)",
            risk="",
            automatic=False,
        )
    if proof.facts.get("cpu"):
        return Proposal(
            summary=f"on the machine of rank {rank}: `ps -eLo psr,ni,pcpu,pid,comm --sort=-pcpu` "
            "shows what runs on its cores, and at which priority; give every rank cores of its own "
            "(`taskset -c`, `srun --cpus-per-task`)",
            risk="",
            automatic=False,
        )
    return Proposal(
        summary=f"on the machine of rank {rank}: `nvidia-smi -q -d "
        "PERFORMANCE,TEMPERATURE,POWER,ECC`; drain it if it throttles or shows errors",
        risk="restarting elsewhere costs the time since the last checkpoint",
        automatic=False,
    )
