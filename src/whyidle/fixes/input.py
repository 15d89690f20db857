"""Fixes of how batches are made."""

from __future__ import annotations

from whyidle.fixes._preparation import describe_preparation
from whyidle.fixes._values import nearby_values
from whyidle.model.cause import Proof
from whyidle.model.diagnosis import Edit, Predicted
from whyidle.model.fix import Proposal, fix
from whyidle.model.proof_facts import InputFacts, TransferFacts

AHEAD = 2
"""one batch for the next step, and one to smooth uneven ones"""


@fix("slow-input-pipeline", consent="rounding", title="Make batches in a thread beside the step")
def batches_ahead(proof: Proof) -> Proposal | None:
    """Let a thread ask the iterator of a data library, two batches ahead, in the same order: by
    the library's own prefetching (Grain's ``ReadOptions``, DALI's ``prefetch_queue_depth``) where
    it has one, or by a queue. At best the step takes as long as the longer of both."""
    facts = proof.get_facts(InputFacts)
    if facts.beside is None:
        return None
    return Proposal(
        edits=(Edit(knob="iterator.ahead", value=AHEAD, was=0),),
        predicted=facts.beside,
        risk="transforms run beside the step: numbers that both draw from one generator come in "
        "another order, and where the CPU is the device they take its cores",
    )


@fix(
    "repeated-deterministic-preprocessing",
    "dataloader-no-workers",
    "heavy-cpu-transform",
    consent="none",
    title="Preprocess each sample once",
)
def cached_preprocessing(proof: Proof) -> Proposal | None:
    """Cache samples that are the same in every epoch. Applied at run time, a sample enters the
    cache in memory once it is proven to be constant: made twice with different random states and
    equal bit for bit; in every epoch some samples are made again to check. Where no sample was seen
    to be equal in two epochs, but the dataset was read in two epochs, this is advice: cache what
    comes before the first random transform. Its line is told if ``__getitem__`` draws random
    numbers, by its source; then stack samples time the lines before. Else the dataset must have a
    chain of transforms (like torchvision's Compose), and the gain may be anything from nothing to
    all of it, as the recording does not show which of them are random."""
    facts = proof.get_facts(InputFacts)
    if facts.same_again:
        return Proposal(
            summary="preprocess the dataset once and cache the result in memory, or on disk: "
            + describe_preparation(facts),
            edits=(Edit(knob="dataset.cache", value=True, was=False),),
            predicted=facts.cached,
            risk="takes up to half of the free memory; a change that the dataset's attributes do "
            "not show is noticed only at the samples that are made again; preprocessed data on "
            "disk can be larger, slower to read, and out of date",
        )
    if facts.leading is None:
        return None
    begin = f", at {facts.random}" if facts.random else ""
    return Proposal(
        summary=f"cache each sample as it is before the first random transform{begin}, in memory "
        "or in files, and apply the random transforms to a copy of it",
        predicted=facts.leading,
        risk="a random transform before the cache is frozen; the cache takes memory or disk space",
        automatic=False,
    )


@fix("bursty-loader-shallow-prefetch", consent="none", title="Prefetch more batches")
def deeper_prefetch(proof: Proof) -> Proposal | None:
    """A deeper queue bridges slow batches. It holds the number of workers times the prefetch
    factor."""
    facts = proof.get_facts(InputFacts)
    value = facts.prefetch
    among = nearby_values(value, (facts.was or 2) + 1, facts.most_prefetch)
    return Proposal(
        edits=(Edit(knob="loader.prefetch_factor", value=value, among=among),),
        risk="memory and /dev/shm must hold that many batches",
        automatic=True,
    )


@fix(
    "cpu-oversubscription",
    "worker-handoff-bottleneck",
    consent="rounding",
    title="Use no more loader workers than keep the cores busy",
)
def fewer_workers(proof: Proof) -> Proposal | None:
    """Reduce the loader's workers to as many as keep the cores busy: further workers only compete
    with each other and with the training process. Where making a batch takes less than taking one
    from a worker, use none; PyTorch then refuses ``persistent_workers`` and ``prefetch_factor``.
    Random augmentation moves to other workers, so its random numbers come in another order."""
    edits = _excess_edits(proof)
    if [edit.knob for edit in edits] != ["loader.workers"]:
        return None
    facts, why = proof.get_facts(InputFacts), "no more workers than keep the cores busy"
    risk = "with more cores, set it again"
    if facts.workers == 0:
        why = "the training process makes a batch faster than it takes one from a worker"
        risk = "remove loader options that need workers; set it again if samples become slow"
    summary = "{edits}: " + why
    return Proposal(summary, edits=edits, predicted=facts.by_workers, risk=risk, automatic=True)


@fix(
    "dataloader-no-workers",
    "dataloader-too-few-workers",
    "remote-storage-fetch-stall",
    "small-file-random-io",
    consent="rounding",
    title="Load batches in worker processes",
)
def loader_workers(proof: Proof) -> Proposal | None:
    """Give the loader worker processes, or more of them, and keep them between epochs. Random
    augmentation moves into the workers, so its random numbers come in another order. Never more
    workers than cores, unless they mostly wait: further workers slow each other and the training
    process down. Where something bound the process to fewer cores than the command had, workers get
    them all. An iterable dataset must divide its samples among workers; applied at run time its
    loader gets at most one. Advice where the dataset launches kernels, because CUDA does not
    survive a fork, and where it holds an object that does not survive one, or a random generator
    that all workers would copy."""
    facts = proof.get_facts(InputFacts)
    workers = facts.workers
    edits = [Edit(knob="loader.persistent_workers", value=True)]
    if workers is not None:
        was = facts.was or 0
        value = max(2, workers)
        among = nearby_values(value, was + 1, facts.most_workers)
        if facts.undivided:  # the data may support only one
            among = tuple(dict.fromkeys((value, was + 1, *among)))
        edits.insert(0, Edit(knob="loader.workers", value=value, was=was, among=among))
    if facts.bound:
        edits.append(Edit(knob="loader.full_affinity", value=True, was=False))
    risk = (
        "an iterable dataset that does not divide its samples among workers repeats them; open "
        "HDF5 or LMDB handles do not survive a fork; memory grows with the workers; persistent "
        "workers do not see changes that the loop makes to the dataset per epoch"
    )
    if facts.device_work:
        risk = "the dataset launches kernels, which a forked worker cannot do; " + risk
    summary = "{edits}" + "; loading mostly waits, so workers may outnumber cores" * facts.waits
    if workers is None:
        summary = "use more workers, at most one per core that this process may use, and {edits}"
    if facts.unfit:
        summary = f"{facts.unfit}; then {summary}"
    if facts.undivided:
        summary = (
            "make sure that the iterable dataset gives each worker its own part, as otherwise "
            f"every worker yields all samples; then {summary}"
        )
    return Proposal(
        summary=summary,
        edits=tuple(edits),
        predicted=facts.by_workers,
        risk=risk,
        automatic=workers is not None and not facts.device_work and not facts.unfit,
        spreads=True,
    )


@fix("cpu-oversubscription", consent="rounding", title="Use one thread per loader worker")
def one_thread_per_worker(proof: Proof) -> Proposal | None:
    """One thread per worker: the workers themselves provide the parallelism. Sums over several
    threads round differently."""
    facts = proof.get_facts(InputFacts)
    if (own := facts.own) is not None:
        threads = facts.threads
        among = nearby_values(own, 1, None if threads is None else threads - 1)
        return Proposal(
            summary=f"{{edits}}, or OMP_NUM_THREADS={own} for the command",
            edits=(Edit(knob="torch.num_threads", value=own, was=threads, among=among),),
            risk="with more cores, set it again",
            automatic=True,
        )
    edits = _excess_edits(proof)
    if edits and [edit.knob for edit in edits] != ["loader.worker_threads"]:
        return None  # the workers themselves are too many, or more than their threads are
    return Proposal(
        summary="{edits}, cv2.setNumThreads(0), and OMP_NUM_THREADS=1 for other libraries",
        edits=(Edit(knob="loader.worker_threads", value=1, was=facts.threads),),
        risk="a single worker with parallel work of its own becomes slower",
        automatic=True,
    )


@fix(
    "serial-map",
    consent="rounding",
    title="Handle several elements of a tf.data pipeline at a time",
)
def parallel_map(proof: Proof) -> Proposal | None:
    """Call the function of a tf.data stage for several elements at a time, in a thread pool with
    room for them where its calls wait. The order of the elements is preserved, but a function that
    uses random numbers will draw different ones. Declines where the function closes over an open
    file, a generator or a random generator."""
    facts = proof.get_facts(InputFacts)
    calls = facts.workers
    if calls is None:
        return None
    edits = []
    if not facts.parallel:
        maps = Edit(knob="tfdata.map_calls", value=calls, was=1)
        sources = Edit(knob="tfdata.interleave_calls", value=calls, was=1)
        edits.append(sources if facts.interleaved else maps)
    if facts.waits:
        edits.append(Edit(knob="tfdata.pool", value=calls, was=facts.was))
    return Proposal(
        edits=tuple(edits),
        risk="a Python function that is not safe in threads; while it runs in threads, the process "
        "does not end before the iterator is deleted, so a script should delete it at its end",
    )


@fix("worker-restart-per-epoch", consent="rounding", title="Keep loader workers between epochs")
def persistent_workers(_proof: Proof) -> Proposal | None:
    """Keep workers between epochs. They are seeded once instead of per epoch, so random
    augmentation comes in another order."""
    return Proposal(
        edits=(Edit(knob="loader.persistent_workers", value=True, was=False),),
        risk="workers hold their memory between epochs, and do not see changes that the loop makes "
        "to the dataset per epoch (set_epoch, new negatives, another transform)",
    )


@fix(
    "pageable-h2d-copy",
    "blocking-h2d-copy",
    consent="none",
    title="Copy batches from pinned memory without blocking",
)
def pinned_copies(proof: Proof) -> Proposal | None:
    """Let the loader pin its batches in its own thread, and copy them without blocking. Only copies
    to the device: the host would read a copy back before it has arrived. Pinning in the training
    loop is never proposed: it costs more than it saves."""
    low, expected = proof.low, proof.get_facts(TransferFacts).without_overlap
    expected = low if expected is None else expected
    if expected <= 0.0:
        return None
    return Proposal(
        edits=(
            Edit(knob="loader.pin_memory", value=True),
            Edit(knob="copy.non_blocking", value=True),
        ),
        predicted=Predicted(
            speedup=1.0 / (1.0 - min(max(expected, low), 0.99)),
            low=1.0 / (1.0 - min(low, 0.99)),
            high=1.0 / (1.0 - min(max(expected, low), 0.99)),
            method="copies at the rate of pinned memory, without the wait or overlap",
        ),
        risk="locks host memory for a few batches; custom batch types need a pin_memory method",
    )


@fix("single-batch-generator", consent="none", title="Make the batches of a PyDataset in threads")
def pydataset_workers(proof: Proof) -> Proposal | None:
    """Give a PyDataset of Keras threads that make batches ahead, in the same order. Advice for a
    plain generator, which only one thread can run. Declines where it gives single rows."""
    facts = proof.get_facts(InputFacts)
    if facts.pipeline == "rows":
        return None  # whole batches gain more
    if facts.workers is None:
        return Proposal(
            summary="give batches by their number instead of by a generator, so that several can "
            "be made at a time (keras.utils.PyDataset with workers), or do the work in a parallel "
            "map of the dataset",
            risk="work in Python gains nothing from threads",
            automatic=False,
        )
    return Proposal(
        edits=(Edit(knob="keras.workers", value=facts.workers, was=facts.was),),
        risk="__getitem__ must be safe in threads; where it computes in Python, "
        "use_multiprocessing=True makes processes of them",
    )


@fix(
    "cpu-oversubscription",
    consent="rounding",
    title="Reduce workers and threads to the number of cores together",
)
def threads_to_cores(proof: Proof) -> Proposal | None:
    """As many loader workers as keep the cores busy, one thread each, and no more threads of the
    training process than cores that remain. Proposed where more than one of these is too high:
    reducing one alone leaves the others crowding the cores. Random augmentation moves to other
    workers, and sums over several threads round differently."""
    edits = _excess_edits(proof)
    if len(edits) < 2:
        return None
    return Proposal(edits=edits, risk="with more cores, set them again", automatic=True)


def _excess_edits(proof: Proof) -> tuple[Edit, ...]:
    """One edit for each number that is too high: the loader's workers, their threads, and the
    threads of the training process."""
    facts = proof.get_facts(InputFacts)
    workers, was, threads, main = facts.workers, facts.was, facts.threads, facts.main
    edits = []
    if workers is not None and was is not None:
        among = nearby_values(workers, 1, was - 1) if workers else (0, 1)[:was]
        edits.append(Edit(knob="loader.workers", value=workers, was=was, among=among))
    if was is not None and threads not in (1, None):
        edits.append(Edit(knob="loader.worker_threads", value=1, was=threads))
    if was is not None and main is not None:
        edits.append(Edit(knob="torch.num_threads", value=main, was=facts.main_was))
    return tuple(edits)
