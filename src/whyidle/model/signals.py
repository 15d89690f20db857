"""The shared vocabulary of evidence: what a cause may need, and how a user can get it."""

from __future__ import annotations

from typing import Final, NamedTuple


class Signal(NamedTuple):
    """One kind of evidence. ``how`` completes the sentence "To get it, ..."."""

    meaning: str
    how: str


SIGNALS: Final[dict[str, Signal]] = {
    "device_events": Signal(
        "kernels and copies on the device",
        "record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]",
    ),
    "device_time": Signal(
        "when the device works and when it waits (on a CPU job: when operators run)",
        "record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]",
    ),
    "device_marks": Signal(
        "how far the device of a watched CUDA job had come, in a sample of its steps",
        "watch the job with whyidle run until it has trained for a second",
    ),
    "host_ops": Signal(
        "operators on the host", "record with activities=[ProfilerActivity.CPU, ...]"
    ),
    "every_operator": Signal(
        "every operator of some steps",
        "watch the job until a burst was recorded, or record it with torch.profiler",
    ),
    "runtime_calls": Signal(
        "calls of the device runtime (launches, copies, synchronisations)",
        "record CPU and CUDA activities together",
    ),
    "launch_links": Signal(
        "which call launched which kernel",
        "record CPU and CUDA activities together, and do not filter the events afterwards",
    ),
    "steps": Signal(
        "step boundaries",
        "call prof.step() once per training step, or record at least three optimizer steps",
    ),
    "steady_steps": Signal(
        "at least two steady steps after warm-up",
        "use torch.profiler.schedule(wait=5, warmup=2, active=5, repeat=1)",
    ),
    "loader_marks": Signal(
        "time inside the DataLoader",
        "record the part of the loop that asks the DataLoader for its next batch",
    ),
    "worker_batches": Signal(
        "what every batch costs in the loader worker that makes it",
        "watch the command with whyidle run; a profiler's recording does not see loader workers",
    ),
    "row_sums": Signal(
        "checksums of what the loader makes of the same sample in several epochs",
        "watch the command with whyidle run for two epochs of a map-style dataset",
    ),
    "batch_padding": Signal(
        "how much of the batches is padding",
        "watch the command with whyidle run; batches must come from a DataLoader, with a mask, "
        "lengths or a padding value",
    ),
    "pause_marks": Signal(
        "what the host does in pauses: saving, evaluating, logging, collecting garbage",
        "record with with_stack=True, or put record_function around saving and evaluating",
    ),
    "world_size": Signal(
        "how many processes the job has",
        "record inside an initialised torch.distributed job, with a PyTorch of 2022 or newer",
    ),
    "python_stacks": Signal("Python functions on the host", "record with with_stack=True"),
    "own_settings": Signal(
        "what the process says about itself: switches, optimizer, compiler, memory",
        "watch the command: whyidle run COMMAND",
    ),
    "own_allocator": Signal(
        "what the framework's allocator of device memory counts",
        "watch the command on a GPU: whyidle run COMMAND",
    ),
    "own_process": Signal(
        "what the threads of the process did all its life, whether it trained or not",
        "watch the command: whyidle run COMMAND",
    ),
    "stepless": Signal(
        "the whole life of a command in which no step was seen",
        "watch the command: whyidle run COMMAND",
    ),
    "shapes": Signal("operator input shapes and types", "record with record_shapes=True"),
    "memory_events": Signal("allocator events", "record with profile_memory=True"),
    "memory_capacity": Signal(
        "the device's memory size", "record with a PyTorch of 2021 or newer, on the GPU itself"
    ),
    "several_ranks": Signal(
        "recordings of several ranks of the same job", "record every rank and pass the whole folder"
    ),
    "gpu_model": Signal(
        "which GPU it was", "record with a PyTorch of 2021 or newer (deviceProperties)"
    ),
    "device_use": Signal(
        "which of the visible devices the job uses",
        "watch the job with whyidle run on a machine with NVML, or record inside an initialised "
        "torch.distributed job, with a PyTorch of 2022 or newer",
    ),
    "gpus_beside": Signal(
        "that the host has GPUs, while the job trains on its CPU",
        "watch the job with whyidle run on a machine with a GPU",
    ),
    "host_telemetry": Signal(
        "what the job's processes, and the cores and memory that they share, did while it ran",
        "watch the job with whyidle run",
    ),
    "gpu_telemetry": Signal(
        "clocks, power, use and memory of the GPUs while the job ran",
        "watch the job with whyidle run on the machine of the GPU, with whyidle[nvidia] installed",
    ),
}
