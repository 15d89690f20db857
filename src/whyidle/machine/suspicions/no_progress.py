"""A watched job without steps."""

from whyidle.model.live.suspicion import JobView, Suspected, suspicion


@suspicion(
    "The job makes no step",
    state="stalled",
    needs=("since_step_s",),
    cause="late-rank",
)
def no_progress(view: JobView) -> Suspected | None:
    """A job that has made steps makes none any more.

    It hangs, or does something that takes longer than its steps: an evaluation, a download.

    Detected: No step for ten minutes, in a job under ``whyidle run`` that has made steps.
    Evaluations and checkpoints end within minutes; NCCL's watchdog waits ten.

    Looks alike: A long evaluation or a final export, which the recording of the job may show.

    Sources: PyTorch, ``TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC``; marin-community/marin#7344
    """
    if (view.since_step_s or 0.0) < 600.0:
        return None
    return Suspected(
        text=f"likely stalled: no step for {(view.since_step_s or 0) / 60:.0f} min",
        proof="whyidle attach PID shows where it is",
    )
