"""Kernels that wait inside the GPU."""

from whyidle.model.live.suspicion import JobView, Suspected, suspicion


@suspicion(
    "Kernels wait on the GPU and do nothing",
    state="stalled",
    needs=("gpu_busy", "power_ratio"),
    least_s=20.0,
    cause="late-rank",
)
def spinning_collective(view: JobView) -> Suspected | None:
    """The GPU is busy all the time, draws little power and moves nothing.

    A collective waits for a rank that does not come: it runs as a kernel that polls, so utilization
    is 100 %. The job makes no progress until its timeout.

    Detected: Busy at least 95 % and power at most 40 % of its limit over at least 20 seconds, with
    hardly any traffic where it is measured, and no step in the last minute where steps are known.
    Kernels that compute draw more: an H100 that spins in a collective draws about 150 of 700 W.
    Polling moves less than 50 MB/s, a collective that moves data gigabytes.

    Looks alike: A stream of tiny kernels is busy at low power, too, and moves data or makes steps.

    Sources: NVIDIA/nccl#968; nebius/soperator#796; marin-community/marin#7344
    """
    quiet = view.bus_bytes_per_s is None or view.bus_bytes_per_s < 50e6
    steps = view.since_step_s is not None and view.since_step_s < 60.0
    if (view.gpu_busy or 0) < 0.95 or (view.power_ratio or 1) > 0.4 or not quiet or steps:
        return None
    return Suspected(
        text=f"likely stalled in a collective: busy {view.gpu_busy:.0%} at {view.power_ratio:.0%} "
        "of its power",
        proof="whyidle attach PID of every rank, or a dump of NCCL's flight recorder",
    )
