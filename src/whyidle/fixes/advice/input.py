"""Advice on loading data."""

from __future__ import annotations

from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Predicted
from whyidle.model.fix import advice
from whyidle.model.proof_facts import InputFacts

OWN_CODE = (
    *("heavy-cpu-transform", "repeated-deterministic-preprocessing", "dataloader-no-workers"),
)
IDLE_DEVICE = 0.7
"""share of the step in which the device computes, below which it has time to prepare data"""


def _cheaper_gain(proof: Proof) -> Predicted | None:
    return proof.get_facts(InputFacts).cheaper


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
    if facts.hidden_by_workers or facts.storage or facts.media is False:
        return None
    idle = facts.compute < IDLE_DEVICE
    where = ", or transform whole batches on the GPU" if idle else ""
    return (
        "decode at reduced size, crop before resizing, cache what is the same in every "
        f"epoch{where}"
    )


def _transforms_in_workers(proof: Proof) -> str | None:
    facts = proof.get_facts(InputFacts)
    if facts.inside:
        return None
    function = facts.function
    work = f"the work of {function}" if function else "decoding and transforms"
    return f"move {work} into the dataset and load with two or more workers"


def _whole_arrays(proof: Proof) -> str | None:
    facts = proof.get_facts(InputFacts)
    if facts.hidden_by_workers or facts.storage or facts.media is not False:
        return None
    name = (facts.function or "").rpartition(": ")[2]
    work = name if name.isidentifier() else "the preprocessing code"
    return (
        f"make {work} cheaper: process whole arrays instead of single elements (even the smallest "
        "tensor costs microseconds), and compute once, before training, what is the same in every "
        "epoch"
    )


def _reorder_transforms(proof: Proof) -> str | None:
    chained = proof.get_facts(InputFacts).chained
    text = (
        "in the list of transforms, move the crop or resize before the costly per-pixel transforms"
    )
    return text if chained else None


def _predict_nothing(proof: Proof) -> Predicted:
    method = "no promise: the recording does not time single transforms"
    return Predicted(speedup=1.0, low=1.0, high=max(1.0, proof.predicted.high), method=method)


ADVICE = (
    advice(
        *("cheaper-reads", "heavy-cpu-transform", "dataloader-no-workers"),
        title="Make reads through a storage library cheaper",
        doc="HDF5, Zarr and Parquet read and unpack a whole chunk (row group) for any part of it. "
        "Proposed only where stack samples show most of the loading in such a library, and not for "
        "a loader without workers whose wait workers are expected to hide.",
        summary=_cheaper_reads,
        predicted=_cheaper_gain,
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
        predicted=_cheaper_gain,
        consent="numerics",
        risk="interpolation differs between libraries; caching random augmentation freezes it",
    ),
    advice(
        *("leaner-batches", "worker-handoff-bottleneck"),
        title="Return few contiguous tensors from workers",
        doc="Workers pass tensors in shared memory by reference, and copy Python objects one by "
        "one.",
        summary="collate into few contiguous tensors in the worker; no lists of Python objects; "
        "images as uint8",
        risk="code that consumes the batches must accept the new form",
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
        summary="pack samples into shards (tar, Arrow) and read them sequentially with a shuffle "
        "buffer",
        consent="convergence",
        risk="less shuffling; a second copy of the data",
    ),
    advice(
        *("staged-data", "remote-storage-fetch-stall", "small-file-random-io"),
        "page-cache-thrash",
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
        *("whole-arrays", *OWN_CODE),
        title="Preprocess whole arrays instead of looping in Python",
        doc="Process whole arrays, and compute once what is the same in every epoch. Proposed only "
        "where stack samples show the time in the user's own Python, not in a library that decodes "
        "or reads, and not for a loader without workers whose wait workers are expected to hide.",
        summary=_whole_arrays,
        predicted=_cheaper_gain,
        consent="rounding",
        risk="another order of operations may round differently; caching random augmentation "
        "freezes it",
    ),
    advice(
        *("cheap-transforms-first", "heavy-cpu-transform"),
        title="Run transforms that shrink samples first",
        doc="Cropping before per-pixel transforms saves work and gives the same samples. Only the "
        "author knows which transforms may change places. Proposed where the dataset has a list of "
        "several transforms; the recording does not time them, so no gain is promised.",
        summary=_reorder_transforms,
        predicted=_predict_nothing,
        risk="a transform whose result depends on what is cropped away must stay before the crop",
    ),
)
