"""Workers that nobody needs."""

from whyidle.model.live.suspicion import JobView, Suspected, suspicion


@suspicion(
    "Most worker processes have nothing to do",
    state="active",
    needs=("gpu_busy", "workers", "workers_idle"),
    least_s=20.0,
)
def idle_workers(view: JobView) -> Suspected | None:
    """Many processes of a job whose GPU works use no CPU time.

    The loader has more workers than the GPU needs. Each holds memory, a copy of the data set's
    index, and batches that wait; fewer make the same speed.

    Detected: At least eight processes below those that hold a GPU, and three of four of all of
    them, use less than 2 % of a core over at least twenty seconds, while the GPU is busy half of
    the time or more.

    Looks alike: Workers of an evaluation that is still to come are idle, too. Where the GPU waits
    as well, something keeps the workers: that is another suspicion.

    Sources: PyTorch documentation, ``torch.utils.data``: "Multi-process data loading" (memory of
    workers)
    """
    idle, all_of_them = view.workers_idle or 0, view.workers or 0
    if idle < 8 or idle < 0.75 * all_of_them or (view.gpu_busy or 0.0) < 0.5:
        return None
    return Suspected(
        text=f"likely more workers than needed: {idle} of {all_of_them} have nothing to do",
        proof="compare the step time with half of the workers",
    )
