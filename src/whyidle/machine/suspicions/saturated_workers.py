"""Loader workers without a pause, and cores that nobody uses."""

from whyidle.model.live.suspicion import JobView, Suspected, suspicion


@suspicion(
    "The loader's workers are the limit, and cores are free",
    state="starved",
    needs=("gpu_busy", "workers", "workers_busy", "workers_idle", "cores_used", "cores_allowed"),
    least_s=5.0,
    cause="dataloader-too-few-workers",
)
def saturated_workers(view: JobView) -> Suspected | None:
    """Nearly all worker processes compute without a pause while the GPU waits.

    Workers that are never idle make batches more slowly than the GPU uses them. More of them would
    run, since the job may use more cores than it does.

    Detected: Of the processes below those that hold a GPU, three of four that do anything use at
    least 0.9 of a core, a GPU is busy less than 90 %, and at least one core of the job's is free,
    over at least five seconds.

    Looks alike: Without a free core the job is short of cores. Workers that wait for storage use
    less of a core.

    Sources: PyTorch performance tuning guide, "Enable asynchronous data loading and augmentation"
    """
    busy = view.workers_busy or 0
    working = (view.workers or 0) - (view.workers_idle or 0)
    free = (view.cores_allowed or 0.0) - (view.cores_used or 0.0)
    if not busy or busy < 0.75 * working or free < 1.0 or (view.gpu_busy or 0.0) >= 0.9:
        return None
    return Suspected(
        text=f"likely too few loader workers: {busy} of {working} that work use a whole core, and "
        f"{free:.0f} cores are free",
        proof="whyidle attach PID, or start it with more workers and compare the step time",
    )
