"""More runnable processes than cores."""

from whyidle.model.live.suspicion import JobView, Suspected, suspicion


@suspicion(
    "The job has too few CPU cores",
    state="starved",
    needs=("cores_used", "cores_allowed", "threads_ready"),
    least_s=5.0,
    cause="cpu-starved-allocation",
)
def cpu_starved(view: JobView) -> Suspected | None:
    """The job uses all cores that it may use, and more of its processes want one.

    The allocation has fewer cores than ranks and loader workers need: a container's quota, a
    cpuset, or a scheduler's default of one core per task. Or neighbours use the cores.

    Detected: The control group's quota ran out in at least 10 % of its periods; or the job uses 90
    % of its cores while half as many processes again want to run; or the first thread of a process
    waited for a core 20 % of the time. A GPU, if it has one, is busy less than 90 %. A quota that
    runs out more rarely delays nobody visibly; a thread with a core for itself waits for less than
    a hundredth.

    Looks alike: Thread pools that spin use all cores, too: then fewer processes than cores want to
    run.

    Sources: Linux, Documentation/admin-guide/cgroup-v2.rst (cpu.stat); PrincetonUniversity/jobstats
    """
    used, allowed = view.cores_used or 0.0, view.cores_allowed or 0.0
    throttled = view.throttled or 0.0
    crowded = used >= 0.9 * allowed and (view.threads_ready or 0.0) >= 1.5 * allowed
    queued = view.queued or 0.0
    short = throttled >= 0.1 or crowded or queued >= 0.2
    if (view.gpu_busy or 0.0) > 0.9 or not short:
        return None
    if queued >= 0.2:
        return Suspected(
            text=f"likely starved of CPU: its first thread waited for a core {queued:.0%} of the "
            f"time, with {allowed:g} cores allowed",
            proof="see which processes use the cores (top), and compare the step time without them",
        )
    quota = f", its quota ran out in {throttled:.0%} of periods" if throttled else ""
    return Suspected(
        text=f"likely starved of CPU: uses {used:.1f} of {allowed:g} cores{quota}",
        proof="ask for more cores per GPU, and compare the step time",
    )
