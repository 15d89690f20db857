"""Memory that comes back from storage."""

from whyidle.model.live.suspicion import JobView, Suspected, suspicion

SWAPPED_BYTES = 256 << 20
"""less than this may be memory that the job never touches again"""
FAULTS_PER_S = 50.0
"""page faults that wait for storage; at 0.1 to 10 ms each, this is 0.5 to 50 % of a second"""


@suspicion(
    "The job swaps",
    state="starved",
    needs=("swap_bytes", "faults_per_s"),
    least_s=3.0,
    cause="host-memory-pressure",
)
def memory_swapping(view: JobView) -> Suspected | None:
    """Memory of the job was moved to storage, and is read back.

    The machine or the control group has too little memory: every access to a swapped page waits for
    a disk.

    Detected: At least 256 MiB of the job lie in swap, and at least 50 page faults a second wait for
    storage.

    Looks alike: A memory-mapped data set faults as well, without swap.

    Sources: proc_pid_status(5), VmSwap; Linux, Documentation/accounting/psi.rst
    """
    swapped, faults = view.swap_bytes or 0, view.faults_per_s or 0.0
    if swapped < SWAPPED_BYTES or faults < FAULTS_PER_S:
        return None
    return Suspected(
        text=f"likely swapping: {swapped / 2**30:.1f} GiB in swap, {faults:.0f} slow faults per s",
        proof="vmstat 1: columns si and so",
    )
