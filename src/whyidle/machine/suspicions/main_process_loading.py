"""One busy thread, and a GPU that waits for it."""

from whyidle.model.live.suspicion import JobView, Suspected, suspicion


@suspicion(
    "One thread of the job is the limit",
    state="starved",
    needs=("gpu_busy", "busiest_thread", "cores_used"),
    least_s=5.0,
    cause="dataloader-no-workers",
)
def main_process_loading(view: JobView) -> Suspected | None:
    """One thread uses a whole core while the GPU waits.

    The training process makes its batches itself, or its Python code between kernels takes longer
    than the kernels.

    Detected: The busiest thread uses at least 0.9 of a core, the whole job less than 1.7 cores, and
    the GPU is busy less than half of the time, over at least five seconds. The scheduler takes some
    of a full core; below half, the GPU waits for most of the step (peers warn below 30 to 70 %).

    Looks alike: With loader workers that are too few, several processes are busy. A thread that
    spins in a synchronisation call looks the same, with a GPU that is busy.

    Sources: PyTorch performance tuning guide, "Enable asynchronous data loading and augmentation"
    """
    thread, cores, busy = view.busiest_thread or 0.0, view.cores_used or 0.0, view.gpu_busy or 0.0
    if thread < 0.9 or cores > thread + 0.8 or busy >= 0.5:
        return None
    return Suspected(
        text=f"likely loading or Python in the main process: one thread at {thread:.0%} of a core, "
        f"GPU busy {busy:.0%}",
        proof="whyidle attach PID, or start it with whyidle run",
    )
