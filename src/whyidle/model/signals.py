"""The signals that a cause may need, and how a user can record them."""

from __future__ import annotations

from typing import Final, get_type_hints

from whyidle.model.process_facts import ProcessFacts, Signal

_DECLARED: Final = [
    (fact, *hint.__metadata__)
    for fact, hint in get_type_hints(ProcessFacts, include_extras=True).items()
    if hasattr(hint, "__metadata__")
]
FACTS: Final[dict[str, str]] = {signal: fact for fact, signal, _ in _DECLARED}
"""signal -> the fact of a process that it is"""
SIGNALS: Final[dict[str, Signal]] = {
    **{signal: declared for _, signal, declared in _DECLARED},
    "device_events": Signal(
        "kernels and copies on the device",
        "record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]",
    ),
    "device_time": Signal(
        "when the device works and waits (on a CPU job: when operators run)",
        "record with activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]",
    ),
    "device_marks": Signal(
        "progress of the device of a watched CUDA job, in a sample of its steps",
        "watch the job with whyidle run for at least a second of training",
    ),
    "host_ops": Signal(
        "operators on the host", "record with activities=[ProfilerActivity.CPU, ...]"
    ),
    "every_operator": Signal(
        "every operator of some steps",
        "watch the job until a burst is recorded, or record it with torch.profiler",
    ),
    "runtime_calls": Signal(
        "calls of the device runtime (launches, copies, synchronisations)",
        "record CPU and CUDA activities together",
    ),
    "launch_links": Signal(
        "which call launched which kernel",
        "record CPU and CUDA activities together and do not filter the events",
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
        "record the part of the loop that requests the next batch from the DataLoader",
    ),
    "tfdata_model": Signal(
        "what tf.data measures of its own pipeline",
        "watch a job of TensorFlow 2.18 or newer with whyidle run, without switching tf.data's "
        "autotuning off",
    ),
    "worker_batches": Signal(
        "the cost of every batch in its loader worker",
        "run the command under whyidle run; a profiler does not record loader workers",
    ),
    "row_sums": Signal(
        "checksums of the same samples in several epochs",
        "run the command under whyidle run for two epochs of a map-style dataset",
    ),
    "batch_padding": Signal(
        "the share of padding in batches",
        "run the command under whyidle run; batches must come from a DataLoader and have a mask, "
        "lengths or a padding value",
    ),
    "pause_marks": Signal(
        "pauses of the host: checkpoints, evaluation, logging, garbage collection",
        "record with with_stack=True, or put record_function around checkpoints and evaluation",
    ),
    "world_size": Signal(
        "the number of ranks",
        "record inside an initialised torch.distributed job, with a PyTorch of 2022 or newer",
    ),
    "python_stacks": Signal("Python functions on the host", "record with with_stack=True"),
    "stepless": Signal("the whole life of a command without a training step"),
    "shapes": Signal("operator input shapes and types", "record with record_shapes=True"),
    "model_look": Signal(
        "passes with other forms of the model", "watch the job with whyidle run --look model"
    ),
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
        "which visible devices the job uses",
        "watch the job with whyidle run on a machine with NVML, or record inside an initialised "
        "torch.distributed job, with a PyTorch of 2022 or newer",
    ),
    "gpus_beside": Signal(
        "whether the host has GPUs while the job trains on its CPU",
        "watch the job with whyidle run on a machine with a GPU",
    ),
    "host_telemetry": Signal(
        "telemetry of the job's processes and of the host's cores and memory",
        "watch the job with whyidle run",
    ),
    "gpu_telemetry": Signal(
        "clocks, power, utilization and memory of the GPUs",
        "install whyidle[nvidia] and watch the job with whyidle run on the machine of the GPU",
    ),
}
