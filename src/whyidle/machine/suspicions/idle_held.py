"""Memory is held and nothing runs."""

from whyidle.model.live.suspicion import JobView, Suspected, suspicion


@suspicion(
    "The job holds a GPU and does not use it",
    state="idle-held",
    needs=("gpu_busy_max", "gpu_memory_bytes", "cores_used"),
    cause="interactive-or-unreleased",
)
def idle_held(view: JobView) -> Suspected | None:
    """A process holds device memory, runs no kernel, and its CPU sleeps.

    A notebook that was left open, a job that has finished without exiting, or a debugger prompt.
    The memory stays with the process until it ends, so nobody else can use the GPU.

    Detected: More than 500 MiB of device memory, no kernel in any look, and less than 5 % of a core
    in the whole process tree. Jobs younger than a minute are not judged. A CUDA context and its
    libraries alone take up to about 500 MiB; a process that waits for a person or a message uses
    less than 5 % of a core; imports, data sets and the first batch take up to a minute.

    Looks alike: A job that prepares its data uses a core; one that waits for storage is blocked.
    Both are other suspicions.

    Sources: microsoft/pai#4266; opendatahub-io/odh-manifests#265
    """
    young = view.age_s is not None and view.age_s < 60.0
    held = view.gpu_memory_bytes or 0
    if young or held < 500 << 20 or view.gpu_busy_max or (view.cores_used or 0) > 0.05:
        return None
    if (view.blocked or 0.0) > 0.5:
        return None
    return Suspected(
        text=f"likely abandoned: holds {held / 2**30:.0f} GiB, no kernel, CPU asleep",
        proof="ask its owner, or inspect its stack with whyidle attach",
    )
