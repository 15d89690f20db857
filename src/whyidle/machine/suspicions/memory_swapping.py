"""Memory that comes back from storage."""

from whyidle.model.live.suspicion import JobView, Suspected, suspicion


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
    storage. Less than 256 MiB may be memory that the job never touches again; 50 faults of 0.1 to
    10 ms are 0.5 to 50 % of a second.

    Looks alike: A memory-mapped data set faults as well, without swap.

    Sources: proc_pid_status(5), VmSwap; Linux, Documentation/accounting/psi.rst
    """
    swapped, faults = view.swap_bytes or 0, view.faults_per_s or 0.0
    if swapped < 256 << 20 or faults < 50.0:
        return None
    return Suspected(
        text=f"likely swapping: {swapped / 2**30:.1f} GiB in swap, {faults:.0f} slow faults per s",
        proof="vmstat 1: columns si and so",
    )
