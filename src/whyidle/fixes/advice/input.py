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
"""share of the step that the device computes, below which it has time to prepare data"""


def _predicted(proof: Proof) -> Predicted | None:
    return proof.get_facts(InputFacts).cheaper


def _cheaper_reads(proof: Proof) -> str | None:
    facts = proof.get_facts(InputFacts)
    if facts.hidden_by_workers or not facts.storage:
        return None
    return (
        f"make reading through {facts.storage} cheaper: a whole chunk (row group) is read and "
        "unpacked for any part of it, so store about one sample in each, without compression or "
        "with a fast one, or read the samples of one together; or keep the data in memory, "
        "unpacked, where it fits"
    )


def _cheaper_transforms(proof: Proof) -> str | None:
    facts = proof.get_facts(InputFacts)
    if facts.hidden_by_workers or facts.storage or facts.media is False:
        return None
    idle = facts.compute < IDLE_DEVICE
    where = ", or in batches on the GPU (torchvision.transforms.v2, DALI)" if idle else ""
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
    return f"move {work} into Dataset.__getitem__ and load with num_workers >= 2"


def _whole_arrays(proof: Proof) -> str | None:
    facts = proof.get_facts(InputFacts)
    if facts.hidden_by_workers or facts.storage or facts.media is not False:
        return None
    name = (facts.function or "").rpartition(": ")[2]
    work = name if name.isidentifier() else "what prepares samples"
    return (
        f"make {work} cheaper: work on whole arrays, not on one element after the other (each "
        "tensor costs microseconds, however small), and do once, before training, what comes out "
        "the same in each epoch"
    )


ADVICE = (
    advice(
        *("cheaper-reads", "heavy-cpu-transform", "dataloader-no-workers"),
        title="Have a library that stores arrays read less",
        doc="HDF5, Zarr and Parquet read and unpack a whole chunk (row group) for any part of it. "
        "Only where stack samples show most of the loading in such a library; not for a loader "
        "without workers whose wait they are expected to hide.",
        summary=_cheaper_reads,
        predicted=_predicted,
        consent="rounding",
        risk="files without compression are larger; samples that are read together are shuffled "
        "less",
    ),
    advice(
        *("cheaper-transforms", *OWN_CODE),
        title="Make preparing data cheaper",
        doc="Cheaper operations in a better order, or batched on the device where it computes for "
        "less than 70 % of the step: moving work to a busy GPU makes the step longer. "
        "Interpolation differs between libraries. Not where stack samples show no library that "
        "decodes, or one that reads; nor for a loader without workers whose wait they are expected "
        "to hide.",
        summary=_cheaper_transforms,
        predicted=_predicted,
        consent="numerics",
        risk="interpolation differs between libraries; caching random augmentation freezes it",
    ),
    advice(
        *("leaner-batches", "worker-handoff-bottleneck"),
        title="Hand over few contiguous tensors",
        doc="Few tensors in shared memory are handed over by reference; many Python objects are "
        "copied one by one.",
        summary="collate into few contiguous tensors in the worker; no lists of Python objects; "
        "images as uint8",
        risk="code behind the loader must expect the new form",
    ),
    advice(
        *("more-producers", "slow-producer"),
        title="Let what the job makes beside training keep up with it",
        doc="Request items ahead, run more producers, or make items cheaper. Only the script's "
        "author knows how its data can be divided. Items come in another order.",
        summary="ask for the next items before the present one is used (several in flight, a "
        "queue with room for some); where that is so already, start more producers if cores are "
        "free, make each item cheaper, and send arrays or tensors instead of lists of numbers; or "
        "load with a DataLoader and num_workers",
        consent="rounding",
        risk="several producers must divide the data among them, and items come in another order",
    ),
    advice(
        *("sharded-data", "small-file-random-io"),
        title="Read samples from shards",
        doc="Shards are read in sequence; a shuffle buffer mixes less well than a random order of "
        "all samples.",
        summary="pack samples into shards (tar, Arrow) and read them in sequence with a shuffle "
        "buffer",
        consent="convergence",
        risk="poorer shuffling; a second copy of the data",
    ),
    advice(
        *("transforms-in-workers", "heavy-cpu-transform"),
        title="Prepare data in loader workers",
        doc="Move preparation out of the training loop into the Dataset, so that workers do it "
        "ahead of time. Random numbers of augmentation come in another order. Declines where "
        "workers prepare it already.",
        summary=_transforms_in_workers,
        consent="rounding",
        risk="the dataset must be able to run in another process",
    ),
    advice(
        *("whole-arrays", *OWN_CODE),
        title="Prepare samples with whole arrays instead of Python loops",
        doc="Work on whole arrays, and once on what is the same in each epoch. Only where stack "
        "samples show that the user's own Python takes the time, not a library that decodes or "
        "reads; not for a loader without workers whose wait they are expected to hide.",
        summary=_whole_arrays,
        predicted=_predicted,
        consent="rounding",
        risk="another order of operations may round otherwise; caching random augmentation "
        "freezes it",
    ),
)
