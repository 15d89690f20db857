"""Processes that wait for storage."""

from whyidle.model.live.suspicion import JobView, Suspected, suspicion


@suspicion(
    "The job waits for storage",
    state="starved",
    needs=("blocked",),
    least_s=3.0,
    cause="small-file-random-io",
)
def storage_blocked(view: JobView) -> Suspected | None:
    """Processes of the job wait uninterruptibly, mostly for storage.

    Samples, a checkpoint or a memory-mapped file come from a disk or a network file system that is
    slower than the job.

    Detected: In at least 30 % of the looks a process of the job was in state D, or a process spent
    30 % of its time blocked on storage where the kernel accounts for it; and a GPU, if it has one,
    is busy less than 90 %. Healthy read-ahead blocks for a few percent.

    Looks alike: State D is also that of a process inside the GPU driver: with a GPU that is busy
    nothing is suspected. Swapping has a suspicion of its own.

    Sources: Linux, Documentation/accounting/psi.rst and delay-accounting.rst
    """
    blocked = max(view.blocked or 0.0, view.io_wait or 0.0)
    if blocked < 0.3 or (view.gpu_busy or 0.0) > 0.9 or (view.swap_bytes or 0) > 1 << 30:
        return None
    pressure = f", storage pressure {view.pressure_io:.0%}" if view.pressure_io else ""
    return Suspected(
        text=f"likely waiting for storage: blocked in {blocked:.0%} of the time{pressure}",
        proof="whyidle run names the files and the line; iostat names the device",
    )
