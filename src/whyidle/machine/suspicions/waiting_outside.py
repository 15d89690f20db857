"""Neither the GPU nor the CPU works."""

from whyidle.model.live.suspicion import JobView, Suspected, suspicion


@suspicion(
    "GPU and CPU both wait",
    state="starved",
    needs=("gpu_busy", "cores_used", "waits_for", "waits_share"),
    least_s=5.0,
)
def waiting_outside(view: JobView) -> Suspected | None:
    """The job neither computes nor uses its GPU: it waits for something else.

    Storage, a network, a lock, another process or a sleep sets the pace. More cores or workers that
    compute do not help.

    Detected: GPUs are busy less than 30 %, the job uses less than half a core, and in at least half
    of the looks the kernel shows the same wait: of the first thread of a process that holds a GPU,
    or, where that waits for messages of its workers, of these. Jobs younger than a minute are not
    judged.

    Looks alike: A server without requests waits for messages. A job that computes on one core is
    limited by it.

    Sources: Linux, proc_pid_wchan(5)
    """
    young = view.age_s is not None and view.age_s < 60.0
    low = (view.gpu_busy or 0.0) < 0.3 and (view.cores_used or 0.0) < 0.5
    if young or not low or (view.waits_share or 0.0) < 0.5:
        return None
    return Suspected(
        text=f"likely waiting for {view.waits_for}: in {view.waits_share:.0%} of the readings, "
        f"with the GPU busy {view.gpu_busy:.0%} and {view.cores_used:.1f} cores used",
        proof="whyidle attach PID names the line",
    )
