"""Advice on loading data."""

from __future__ import annotations

from whyidle.fixes._preparation import describe_preparation
from whyidle.model.cause import Proof
from whyidle.model.fix import Proposal, advice
from whyidle.model.proof_facts import InputFacts

OWN_CODE = (
    *("heavy-cpu-transform", "repeated-deterministic-preprocessing", "dataloader-no-workers"),
)
WHOLE_BATCHES = (
    "batch_size=None, sampler=BatchSampler(loader.sampler, loader.batch_size, loader.drop_last)"
)
"""``loader`` is the one that the job has, with the order and the part of the data that it draws"""
IDLE_DEVICE = 0.7
"""share of the step in which the device computes, below which it has time to prepare data"""


def _cheaper_reads(proof: Proof) -> str | None:
    facts = proof.get_facts(InputFacts)
    if facts.hidden_by_workers or not facts.storage:
        return None
    return (
        f"make reads through {facts.storage} cheaper: it reads and unpacks a whole chunk (row "
        "group) for any part of it, so store about one sample per chunk, uncompressed or with a "
        "fast codec, read the samples of a chunk together, or hold the unpacked data in memory"
    )


def _cheaper_transforms(proof: Proof) -> str | None:
    facts = proof.get_facts(InputFacts)
    if facts.hidden_by_workers or facts.storage or facts.media is False or facts.conversion:
        return None
    once = (facts.looped or facts.kind == "table") and not facts.varies
    if facts.removed and (facts.table_rows or once or facts.kind == "text"):
        return None  # there is better advice
    where = ", or transform whole batches on the GPU" if facts.compute < IDLE_DEVICE else ""
    calls = "PIL: image.draft, TensorFlow: decode_jpeg(ratio=...)"
    smaller = f"decode JPEGs at reduced size ({calls}), crop before resizing"
    how = smaller if facts.media else "use faster operations"
    if facts.kind == "audio":
        how = "cut the part that is used before it is resampled or filtered"
    return f"{how}, cache what is the same in every epoch{where}"


def _transforms_in_workers(proof: Proof) -> str | None:
    facts = proof.get_facts(InputFacts)
    if facts.inside:
        return None
    function = facts.function
    work = f"the work of {function}" if function else "decoding and transforms"
    return f"move {work} into the dataset and load with two or more workers"


def _tokenised_once(proof: Proof) -> str | None:
    facts = proof.get_facts(InputFacts)
    if facts.kind != "text" or facts.removed is None:
        return None
    return (
        f"tokenise every text once, before training, instead of at {facts.line} in every epoch: "
        "ids = [tokenize(text) for text in texts], or dataset.map(tokenize, batched=True), and "
        "only pad in collate"
    )


def _batched_lookup(proof: Proof) -> str | None:
    facts = proof.get_facts(InputFacts)
    if facts.table_rows:
        return (
            f"take each batch of the table by one index: make the loader with {WHOLE_BATCHES}, "
            "which draws the same batches as the loader that it replaces"
        )
    in_rows = (facts.looped or facts.kind == "table") and not facts.varies
    if not (facts.per_sample and in_rows) or facts.kind == "text" or facts.removed is None:
        return None
    return (
        "if no random number changes them, build all samples once, as arrays, and take each batch "
        f"by one index, not by {facts.line} for each sample: def __getitems__(self, rows): "
        "return self.x[rows], self.y[rows], with collate_fn=lambda batch: batch; if they do not "
        "fit into memory, compute each sample with array operations instead of a Python loop"
    )


def _leaner_batches(proof: Proof) -> str | None:
    if proof.get_facts(InputFacts).lean:
        return None
    if proof.get_facts(InputFacts).double:
        return (
            "keep float32 in the dataset and in collate (no .double(), astype(float) or float64 "
            "arrays), and convert in the training process if float64 is needed at all"
        )
    return (
        "collate into few contiguous tensors in the worker; no lists of Python objects; images as "
        "uint8"
    )


def _lookup_without_workers(proof: Proof) -> str | None:
    facts = proof.get_facts(InputFacts)
    if not facts.in_memory or facts.removed is None or facts.varies:
        return None
    return (
        "if no random number changes them, stack all samples once (padded, if they differ in "
        "length), keep them as float32 tensors, and index a whole batch in the training process, "
        "without workers: def __getitems__(self, rows): return self.x[rows], with "
        "collate_fn=lambda batch: batch"
    )


def _whole_arrays(proof: Proof) -> str | Proposal | None:
    facts = proof.get_facts(InputFacts)
    if facts.removed and facts.looped and not facts.per_sample and facts.kind != "text":
        text = (
            f"replace the Python loop at {facts.line} by operations on whole arrays, for the whole "
            "batch at once"
        )
        return Proposal(text, predicted=facts.removed)
    once = (facts.looped or facts.kind == "table") and not facts.varies
    if facts.removed and (facts.table_rows or once or facts.kind == "text"):
        return None  # there is better advice
    if facts.hidden_by_workers or facts.storage or facts.media is not False or facts.conversion:
        return None
    name = (facts.function or "").rpartition(": ")[2]
    work = name if name.isidentifier() else "the preprocessing code"
    return (
        f"make {work} cheaper: process whole arrays instead of single elements (even the smallest "
        "tensor costs microseconds), and compute once, before training, what is the same in every "
        "epoch"
    )


def _whole_batches(proof: Proof) -> str | None:
    facts = proof.get_facts(InputFacts)
    loop = "iterate with ds.iter(batch_size=...) instead of row by row"
    if facts.library != "datasets":
        loop = f"have the loader ask for whole batches: make it with {WHOLE_BATCHES}"
    if facts.conversion == "objects":
        return (
            'let datasets make arrays instead of Python objects: ds = ds.with_format("torch") (or '
            f'"numpy", "jax", "tf"); then {loop}'
        )
    if facts.conversion == "single":
        return f"let datasets convert whole batches: {loop}"
    if facts.conversion == "rows":
        return (
            f"let datasets convert whole batches: {loop}; give columns whose rows have one length "
            'that length (List(Value("float32"), length=N), Array2D), so that rows are not '
            "converted one by one"
        )
    return None


OWN_WORKERS = {
    "grain": "dataset.mp_prefetch with as many workers as there are free cores for Python code, "
    "grain.ReadOptions(num_threads=16, prefetch_buffer_size=500) for reads, or worker_count of "
    "its loader",
    "datasets": "a DataLoader of PyTorch over it, with workers (an iterable dataset needs at least "
    "as many shards); or ds.map(..., batched=True, num_proc=N) once before training",
    "webdataset": "webdataset.WebLoader with workers, and at least as many shards",
    "nvidia": "more of the pipeline's num_threads and prefetch_queue_depth, and decoders with "
    'device="mixed"',
}
"""package -> how it makes batches ahead of the loop"""


def _library_workers(proof: Proof) -> str | None:
    way = OWN_WORKERS.get(proof.get_facts(InputFacts).library)
    return f"let the library make batches ahead of the loop: {way}" if way else None


def _speed_up_pipeline(proof: Proof) -> str | None:
    facts = proof.get_facts(InputFacts)
    if facts.library:
        return None
    steps = ["read files interleaved", "cache what is the same in each epoch", "end with prefetch"]
    if "Py" in (facts.function or ""):
        steps.insert(0, "replace the Python function by the framework's operators")
    if facts.workers is None or facts.workers <= 1:
        steps.insert(0, "let the slow stage make several calls at a time")
    return ", ".join(steps)


ADVICE = (
    advice(
        *("whole-batch-conversion", "dataloader-no-workers", "slow-input-pipeline"),
        title="Let Hugging Face datasets convert whole batches into arrays",
        doc="Without a format, every value of a row becomes a Python object; with one, each row is "
        "converted for itself where single rows are asked for. Proposed where stack samples show "
        "most of the loading in these conversions.",
        summary=_whole_batches,
        predicted=lambda proof: proof.get_facts(InputFacts).converted,
        risk="batches are tensors or arrays instead of lists; a collate function that expects rows "
        "must change",
    ),
    advice(
        *("library-workers", "slow-input-pipeline"),
        title="Make batches ahead of the loop with the library's own workers",
        doc="Grain, Hugging Face datasets, WebDataset and DALI each have threads or processes that "
        "make batches ahead. Options as in their documentation; the ones of DALI have never been "
        "run on a GPU by whyidle's tests.",
        summary=_library_workers,
        consent="rounding",
        risk="several workers may return samples in another order; random transforms draw other "
        "numbers",
    ),
    advice(
        *("faster-pipeline", "slow-input-pipeline"),
        title="Make the input pipeline as fast as the step",
        doc="Parallel calls, interleaved reads, a cache before random transforms, prefetching.",
        summary=_speed_up_pipeline,
        consent="rounding",
        risk="parallel calls return samples in another order unless told to keep it",
    ),
    advice(
        *("cheaper-reads", "heavy-cpu-transform", "dataloader-no-workers"),
        title="Make reads through a storage library cheaper",
        doc="HDF5, Zarr and Parquet read and unpack a whole chunk (row group) for any part of it. "
        "Proposed only where stack samples show most of the loading in such a library, and not for "
        "a loader without workers whose wait workers are expected to hide.",
        summary=_cheaper_reads,
        predicted=lambda proof: proof.get_facts(InputFacts).cheaper,
        consent="rounding",
        risk="uncompressed files are larger; samples that are read together are shuffled less",
    ),
    advice(
        *("cheaper-transforms", *OWN_CODE),
        title="Make preprocessing cheaper",
        doc="Use cheaper operations in a better order, or transform batches on the device where it "
        "computes for less than 70 % of the step: moving work to a busy GPU makes the step longer. "
        "Interpolation differs between libraries. Declines where stack samples show no decoding "
        "library, or one that reads arrays, and for a loader without workers whose wait workers "
        "are expected to hide.",
        summary=_cheaper_transforms,
        predicted=lambda proof: proof.get_facts(InputFacts).cheaper,
        consent="convergence",
        risk="interpolation differs between libraries; caching random augmentation freezes it",
    ),
    advice(
        *("leaner-batches", "worker-handoff-bottleneck"),
        title="Return few contiguous tensors from workers",
        doc="Workers pass tensors in shared memory by reference, and copy Python objects one by "
        "one. Large tensors cost by their bytes: float64 has twice those of float32, which is "
        "what models compute in.",
        summary=_leaner_batches,
        risk="code that consumes the batches must accept the new form",
    ),
    advice(
        *("lookup-without-workers", "worker-handoff-bottleneck"),
        title="Look batches up in the training process",
        doc="Data in memory needs no workers where passing a batch on takes longer than making it. "
        "Proposed where workers read no files and mostly pack their batches.",
        summary=_lookup_without_workers,
        predicted=lambda proof: proof.get_facts(InputFacts).removed,
        risk="all samples must fit into memory as arrays",
    ),
    advice(
        *("more-producers", "slow-producer"),
        title="Make producers keep up with training",
        doc="Request items ahead, run more producers, or make items cheaper. Only the author knows "
        "how the data can be divided. Items come in another order.",
        summary="request the next items before the current one is used (several in flight, a queue "
        "with room for some); then start more producers if cores are free, make each item cheaper, "
        "and send arrays or tensors instead of lists of numbers; or use a data loader with workers",
        consent="rounding",
        risk="several producers must divide the data, and items come in another order",
    ),
    advice(
        *("sharded-data", "small-file-random-io"),
        title="Read samples from shards",
        doc="Shards are read sequentially; a shuffle buffer mixes less than a random order of all "
        "samples.",
        summary=lambda proof: (
            "pack samples into shards and read them sequentially with a shuffle buffer: "
            + describe_preparation(proof.get_facts(InputFacts))
        ),
        consent="convergence",
        risk="less shuffling; a second copy of the data",
    ),
    advice(
        *("staged-data", "remote-storage-fetch-stall", "small-file-random-io", "slow-data-source"),
        title="Copy the data to a local disk or to memory",
        doc="Copy the data to a local disk or to memory before training. Only its author knows "
        "which files a job reads and where there is room for them.",
        summary="copy the dataset to a local disk or /dev/shm before training, or keep a fixed "
        "part of it in memory",
        risk="takes disk space and memory; the copy may become out of date",
    ),
    advice(
        *("transforms-in-workers", "heavy-cpu-transform"),
        title="Preprocess data in loader workers",
        doc="Move preprocessing from the training loop into the dataset, so that workers do it "
        "ahead of time. Random numbers of augmentation come in another order. Declines where "
        "workers do it already.",
        summary=_transforms_in_workers,
        consent="rounding",
        risk="the dataset must be able to run in another process",
    ),
    advice(
        *("whole-arrays", *OWN_CODE, "dataloader-too-few-workers"),
        title="Preprocess whole arrays instead of looping in Python",
        doc="Process whole arrays, and compute once what is the same in every epoch. Proposed only "
        "where stack samples show the time in the user's own Python, not in a library that decodes "
        "or reads, and not for a loader without workers whose wait workers are expected to hide.",
        summary=_whole_arrays,
        predicted=lambda proof: proof.get_facts(InputFacts).cheaper,
        consent="rounding",
        risk="another order of operations may round differently; caching random augmentation "
        "freezes it",
    ),
    advice(
        *("tokenised-once", *OWN_CODE, "dataloader-too-few-workers"),
        title="Tokenise texts once, before training",
        doc="The ids of a text are the same in every epoch. Proposed where samples are texts, or "
        "a library that tokenises takes most of the loading.",
        summary=_tokenised_once,
        predicted=lambda proof: proof.get_facts(InputFacts).removed,
        risk="tokenising that draws random numbers, such as BPE dropout, would be frozen",
    ),
    advice(
        *("batched-lookup", *OWN_CODE, "dataloader-too-few-workers"),
        title="Look up a whole batch at once",
        doc="The loader calls ``__getitems__`` with all indices of a batch, so that data in memory "
        "is indexed once per batch. Proposed where most of the loading is the dataset's own "
        "Python, in loops over each sample or through rows of a table.",
        summary=_batched_lookup,
        predicted=lambda proof: proof.get_facts(InputFacts).removed,
        risk="all samples at once take memory; random augmentation has to be written for batches",
    ),
)
