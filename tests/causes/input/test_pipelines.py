"""Pipelines of tf.data: which stage is slow, and whether more calls at a time would help."""

from dataclasses import replace

import numpy as np
import pipeline_job
import pytest
from pipeline_job import train

from cured_twins import judge
from whyidle import catalog
from whyidle.analysis.facts import Facts
from whyidle.analysis.input.tfdata_pipelines import find_slow_stage
from whyidle.diagnosis.diagnose import diagnose_job
from whyidle.diagnosis.fix_instructions import summarize_edits, word_fixes
from whyidle.model.live.telemetry import Series, Telemetry
from whyidle.model.timeline import HostKind
from whyidle.testing.builder import ms
from whyidle.testing.contracts import Pair
from whyidle.testing.recorded_job import RecordedJob

MAKING = "/job/train.py(5): __getitem__"
PAIRS = {
    "serial-map": Pair(sick=train, healthy=lambda: train(wait_ms=0)),
}


def test_a_serial_map_that_waits_is_the_first_finding_with_its_lines_and_its_cure():
    found = diagnose_job([train()])
    top = found.findings[0]
    assert (found.verdict.bound, top.cause) == ("input", "serial-map")
    assert [(place.file, place.line) for place in top.where] == [
        ("/job/train.py", 19),
        ("/job/train.py", 8),
    ]
    edits = {edit.knob: edit.value for edit in top.fixes[0].edits}
    assert edits == {"tfdata.map_calls": 16, "tfdata.pool": 16}
    assert "num_parallel_calls=16" in summarize_edits(top.fixes[0].edits, "tensorflow")


@pytest.mark.parametrize("framework", ["pytorch", "jax"])
def test_in_a_loop_of_another_framework_the_cure_is_worded_for_the_pipeline(framework):
    found = word_fixes(diagnose_job([train()]).findings[0], framework)
    assert "num_parallel_calls=16" in found.fixes[0].summary
    assert found.fixes[0].automatic


def test_the_same_job_with_the_cure_lies_within_the_prediction():
    predicted = judge("serial-map", train()).predicted
    cured = Facts(train(wait_ms=0, calls=16)).step_s
    assert predicted.low <= 0.05 / cured <= predicted.high


def test_a_map_that_works_gains_from_cores_and_needs_no_larger_pool():
    proof = judge("serial-map", train(operators=("DecodeJpeg", "RandomUniform"), cores=1.0))
    assert (proof.facts.workers, proof.facts.waits) == (2, False)
    assert proof.predicted.high < 2.1


def test_python_that_computes_is_not_promised_threads():
    assert judge("serial-map", train(cores=1.0)) is None


def test_python_holds_the_lock_in_what_does_not_wait():
    """Of a step of 50 ms, 40 are a wait; 15 of them are CPU time."""
    speedup = judge("serial-map", train(cores=0.5)).predicted.speedup
    assert speedup == pytest.approx(50 / 15, abs=0.1)
    assert judge("serial-map", train(cores=0.22)).predicted.speedup > 4.5


def test_parallel_calls_that_wait_need_a_pool_with_room_for_them():
    small = judge("serial-map", train(calls=2, batch_ms=90))
    assert (small.facts.workers, small.facts.parallel) == (16, True)
    assert judge("serial-map", train(calls=2, batch_ms=90, options={"threads": 16})) is None


def test_calls_that_work_need_no_larger_pool():
    assert judge("serial-map", train(calls=2, batch_ms=90, cores=1.6)) is None


def test_a_stage_is_found_by_its_kind_and_order():
    slow = find_slow_stage(Facts(train()))
    assert (slow.stage.line, slow.batch_size) == ("/job/train.py(19): <module>", 32)
    merged = train(stages=[pipeline_job.stage("Batch", 20)])
    assert find_slow_stage(Facts(merged)).stage is None


def test_the_flat_map_of_a_source_is_no_call_of_the_job():
    """``TFRecordDataset`` over several files."""
    nodes = [
        pipeline_job.node("Root", 30),
        pipeline_job.node("MapAndBatch", 30, 90, 2),
        pipeline_job.node("FlatMap", 960, 0.1, 1),
        pipeline_job.node("TFRecord", 960, 0.1),
    ]
    job = train(operators=("ParseExampleV2", "RandomUniform"), calls=2, nodes=nodes, cores=1.8)
    assert find_slow_stage(Facts(job)).stage.line == "/job/train.py(19): <module>"
    top = diagnose_job([job]).findings[0]
    assert top.cause == "heavy-cpu-transform"
    assert not [fix for fix in top.fixes if "reduced size" in fix.summary]


def test_a_stage_that_calls_no_function_is_no_map():
    nodes = [pipeline_job.node("Root", 30), pipeline_job.node("Batch", 30, 50)]
    assert find_slow_stage(Facts(train(nodes=nodes))).node.name == "Batch"
    assert judge("serial-map", train(nodes=nodes)) is None


def test_work_spread_over_the_stages_is_nobody_s():
    nodes = [pipeline_job.node(name, 30, 20) for name in ("Root", "Batch", "Map")]
    assert find_slow_stage(Facts(train(nodes=nodes))) is None


def generator(cores=0.3, wait_ms=40, **pipeline):
    stages = [pipeline_job.stage("Prefetch", 20), pipeline_job.stage("FlatMap", 20)]
    stages[1]["function"] = "flat_map_fn"
    nodes = [
        pipeline_job.node("Root", 30),
        pipeline_job.node("Prefetch", 30, 0.1),
        pipeline_job.node("FlatMap", 30, 1, 1),
    ]
    return train(wait_ms, cores=cores, stages=stages, nodes=nodes, **pipeline)


PAIRS["single-batch-generator"] = Pair(sick=generator, healthy=lambda: generator(wait_ms=1))


def fit_dataset(wait_ms=40, workers=1, cores=0.3, every=1, batches=None):
    """Keras on JAX, fitted on a PyDataset, in a process that keeps so many cores busy; steps wait
    ``every`` so many."""
    job = RecordedJob(framework="jax", compiled=True, cores=2.0)
    job.facts["py_dataset"] = {"making": MAKING, "workers": workers, "batches": batches}
    for step in range(30):
        with job.call("batch_from_iterator\tkeras.utils.PyDataset"):
            job.wait(f"{MAKING};{pipeline_job.LOOP}", 0 if step % every else ms(wait_ms))
        work = job.call("optimizer_operators\twhyidle::optimizer", HostKind.OP)
        with job.call("optimizer\tjit(train_step)"), work:
            job.work(pipeline_job.LOOP, ms(1))
        with job.call("scalar_read\tpythonify_logs", HostKind.RUNTIME):
            job.wait(pipeline_job.LOOP, ms(9))
        with job.call("device_idle\tdevice_idle"):
            pass
    job.facts["cpu"] = [[0, 0], [100, round(100 * cores)]]
    return job.timeline()


@pytest.mark.parametrize("workers", [1, 4])
def test_a_pydataset_gets_threads_and_a_generator_does_not(workers):
    found = diagnose_job([fit_dataset(workers=workers)]).findings[0]
    assert (found.cause, found.where[0].line) == ("single-batch-generator", 5)
    (edit,) = found.fixes[0].edits
    assert (edit.knob, edit.was, edit.value) == ("keras.workers", workers, 8)
    assert judge("single-batch-generator", fit_dataset(wait_ms=1)) is None
    for given in (generator(), fit_dataset(workers=0)):
        plain = diagnose_job([given]).findings[0]
        assert [(fix.edits, fix.automatic) for fix in plain.fixes] == [([], False)]


def test_work_in_python_is_promised_nothing_for_sure():
    assert judge("single-batch-generator", generator(cores=1.0)).predicted.low == 1.0
    assert judge("single-batch-generator", fit_dataset(workers=4, cores=1.5)) is None


def test_workers_end_short_epochs_late():
    """Eight threads hide 40 of 50 ms, but empty their queue after every 8 or 1000 batches."""
    short, long = (
        judge("single-batch-generator", fit_dataset(batches=batches)).predicted.speedup
        for batches in (8, 1000)
    )
    assert long == pytest.approx(5.0, abs=0.2)
    assert short == pytest.approx(50 / (10 + (115 + 40) / 8), abs=0.1)


@pytest.mark.parametrize(("every", "wait_ms", "found"), [(4, 160, True), (15, 600, False)])
def test_more_workers_begin_no_epoch_sooner(every, wait_ms, found):
    """Of four workers one request in four waits; of an epoch its first one."""
    proof = judge("single-batch-generator", fit_dataset(wait_ms, workers=4, every=every))
    assert (proof is not None) == found


def decoding(wait_ms=40, operators=("DecodeJpeg", "ResizeBilinear"), **pipeline):
    more = {"iterators": 3, "batch_ms": 90, **pipeline}
    return train(wait_ms, operators=operators, calls=2, cores=1.9, **more)


PAIRS["uncached-pipeline"] = Pair(sick=decoding, healthy=lambda: decoding(wait_ms=0))


def test_work_that_is_the_same_in_every_epoch_is_cached_behind_its_line():
    found = diagnose_job([decoding()]).findings[0]
    assert (found.cause, found.where[0].line) == ("uncached-pipeline", 19)
    (fix,) = found.fixes
    assert (fix.fix, fix.automatic, fix.consent) == ("cached-stage", False, "none")
    assert ".cache() behind the stage at train.py:19" in fix.summary


SHUFFLED = [
    pipeline_job.stage("Batch", 20),
    pipeline_job.stage("Map", 19, ["DecodeJpeg"]),
    pipeline_job.stage("Shuffle", 18),
]


@pytest.mark.parametrize(
    "job",
    [
        {"operators": ("DecodeJpeg", "RandomUniform")},
        {"operators": ("PyFunc",)},
        {"iterators": 1},
    ],
    ids=["random", "Python", "one epoch"],
)
def test_other_work_is_not(job):
    assert judge("uncached-pipeline", decoding(**job)) is None


def test_a_shuffle_before_the_stage_moves_behind_its_cache():
    (fix,) = diagnose_job([decoding(stages=SHUFFLED)]).findings[0].fixes
    assert (fix.fix, fix.consent) == ("reshuffled-cache", "rounding")
    assert "shuffle elements behind the cache" in fix.summary


AUGMENTING = ("ReadFile", "DecodeJpeg", "ResizeBilinear", "StatelessRandomUniformV2")


def test_what_is_decoded_before_random_operators_is_cached_in_a_map_of_its_own():
    nodes = [
        pipeline_job.node("Root", 30),
        pipeline_job.node("MapAndBatch", 30, 90, 2, bytes=30 * 32 * 110_592),
        pipeline_job.node("TensorSlice", 960, 0.1),
    ]
    top = diagnose_job([decoding(operators=AUGMENTING, nodes=nodes)]).findings[0]
    assert top.cause == "heavy-cpu-transform"
    fixes = {fix.fix: fix for fix in top.fixes}
    assert fixes["cached-decoding"].consent == "rounding"
    assert "106 MB of memory" in fixes["cached-decoding"].summary
    assert "train.py:19" in fixes["cached-decoding"].summary


@pytest.mark.parametrize(
    "other",
    [
        {"iterators": 1},
        {"operators": ("ParseExampleV2", "RandomUniform")},
        {"operators": ("SampleDistortedBoundingBoxV2", "DecodeAndCropJpeg", "RandomUniform")},
    ],
    ids=["one epoch", "nothing decoded", "decoded at random"],
)
def test_other_functions_are_not_divided(other):
    top = diagnose_job([decoding(**{"operators": AUGMENTING} | other)]).findings[0]
    assert not [fix for fix in top.fixes if fix.fix == "cached-decoding"]


def on_machine(timeline, *, others=0.0, idle=0.0, free_bytes=8e9):
    """The same on two cores, of which other programs and the job itself used so much."""
    ends = np.array([0, 10**12]) + timeline.base_ns
    reads = {
        "machine_cpu_user_s": (0.0, 1000 * (2.0 - idle)),
        "machine_cpu_system_s": (0.0, 0.0),
        "machine_cpu_stolen_s": (0.0, 0.0),
        "machine_cpu_idle_s": (0.0, 1000 * idle),
        "job_cpu_user_s": (0.0, 1000 * (2.0 - idle - others)),
        "job_cpu_system_s": (0.0, 0.0),
        "machine_memory_bytes": (16e9, 16e9),
        "machine_memory_available_bytes": (free_bytes, free_bytes),
    }
    series = {name: Series(ends, np.array(read)) for name, read in reads.items()}
    return replace(timeline, telemetry=Telemetry(series, {}))


def test_decoding_that_waits_for_a_core_is_not_told_as_waiting():
    """Other programs use 1.4 of two cores, so the process has little CPU time."""
    slow = {"operators": AUGMENTING, "calls": 2, "batch_ms": 90, "cores": 0.3}
    crowded = on_machine(train(**slow), others=1.4)
    assert judge("serial-map", crowded) is None
    assert judge("heavy-cpu-transform", crowded) is not None
    spare = on_machine(train(**slow), others=0.4, idle=1.2)
    assert judge("serial-map", spare) is not None


def test_whether_python_waits_on_a_crowded_machine_is_not_known():
    crowded = on_machine(train(calls=2, batch_ms=90), others=1.4)
    assert find_slow_stage(Facts(crowded)).waits is None


def test_a_cache_larger_than_the_free_memory_goes_to_a_disk():
    nodes = [
        pipeline_job.node("Root", 30),
        pipeline_job.node("MapAndBatch", 30, 90, 2, bytes=10**10),
        pipeline_job.node("TensorSlice", 960, 0.1),
    ]
    (fix,) = diagnose_job([on_machine(decoding(nodes=nodes))]).findings[0].fixes
    assert ".cache(FILE) on a local disk" in fix.summary


def test_where_no_core_is_idle_a_cache_frees_those_of_the_step():
    alone = judge("uncached-pipeline", on_machine(decoding(), idle=1.5)).predicted
    shared = judge("uncached-pipeline", on_machine(decoding())).predicted
    assert shared.low == alone.low
    assert shared.high > alone.high


def test_calls_that_compute_beside_the_step_share_its_cores():
    """Serial decoding of 40 ms and operators of 10 ms: two cores need at least 25 ms for both."""
    predicted = judge(
        "serial-map", train(operators=("DecodeJpeg", "RandomUniform"), batch_ms=40, cores=1.0)
    ).predicted
    assert predicted.high == pytest.approx(50 / 25, rel=0.02)
    assert predicted.speedup < predicted.high


def repeating(epochs=5, **more):
    """What ``repeat`` does to a model: 30 batches were taken, and the stages before it were counted
    in the last epoch, of which three batches were taken and one more is ready."""
    size = pipeline_job.STEPS // epochs
    stages = [pipeline_job.stage("Repeat", 21), *decoding_stages()]
    stages[0]["size"] = size
    ours = pipeline_job.BATCH * 4
    nodes = [
        pipeline_job.node("Root", 30),
        pipeline_job.node("ForeverRepeat", 30),
        pipeline_job.node("Prefetch", 3, buffered=1),
        pipeline_job.node("BatchV2", 4),
        pipeline_job.node("ParallelMap", ours, 90 * 4 / 30, 2),
        pipeline_job.node("TensorSlice", ours),
    ]
    return decoding(stages=stages, nodes=nodes, iterators=1, batches=None, **more)


def decoding_stages():
    operators = ["DecodeJpeg", "ResizeBilinear"]
    names = ("Prefetch", 20), ("Batch", 20)
    made = [pipeline_job.stage(*one) for one in names]
    return [*made, pipeline_job.stage("Map", 19, operators), pipeline_job.stage("TensorSlice", 18)]


def test_epochs_of_a_repeat_count_as_epochs():
    assert judge("uncached-pipeline", repeating()).where[0].line == 19
    assert judge("uncached-pipeline", repeating(epochs=1)) is None


def test_a_repeat_of_unknown_length_that_gave_more_than_was_made_has_begun_again():
    def records(made):
        stages = [pipeline_job.stage("Repeat", 21), *decoding_stages()]
        nodes = [
            pipeline_job.node("Root", 30),
            pipeline_job.node("BatchV2", 30),
            pipeline_job.node("ShuffleAndRepeat", 960, buffered=100),
            pipeline_job.node("ParallelMap", made, 90 * made / 960, 2),
            pipeline_job.node("TFRecord", made),
        ]
        return decoding(stages=stages, nodes=nodes, iterators=1, batches=None)

    assert judge("uncached-pipeline", records(made=200)).where[0].line == 19
    assert judge("uncached-pipeline", records(made=1060)) is None


def test_what_a_cache_keeps_already_is_not_repeated():
    nodes = [
        pipeline_job.node("Root", 30),
        pipeline_job.node("BatchV2", 30),
        pipeline_job.node("MemoryCacheImpl", 960, buffered=960),
        pipeline_job.node("ParallelMap", 960, 90, 2),
        pipeline_job.node("TensorSlice", 960),
    ]
    assert judge("uncached-pipeline", decoding(nodes=nodes)) is None
    assert judge("heavy-cpu-transform", decoding(operators=AUGMENTING, nodes=nodes)) is None


def interleaved(wait_ms=40, **more):
    nodes = [
        pipeline_job.node("Root", pipeline_job.STEPS),
        pipeline_job.node("Interleave", 960, wait_ms, 4) | {"tunable": False},
    ]
    stages = [pipeline_job.stage("Interleave", 19, ("PyFunc",))]
    return train(wait_ms, nodes=nodes, stages=stages, **more)


def test_a_plain_interleave_is_serial_however_many_sources_it_cycles_through():
    proof = judge("serial-map", interleaved())
    assert (proof.facts.workers, proof.facts.interleaved) == (4, True)
    fixes = diagnose_job([interleaved()]).findings[0].fixes
    assert {edit.knob for edit in fixes[0].edits} == {"tfdata.interleave_calls", "tfdata.pool"}


def test_calls_beyond_the_pool_do_not_count():
    assert judge("serial-map", train(calls=8, batch_ms=90)).facts.workers == 16


@pytest.mark.parametrize("cause", ["serial-map", "uncached-pipeline"])
def test_a_stage_that_is_faster_than_the_steps_is_not_what_they_wait_for(cause):
    job = decoding(wait_ms=4, work_ms=40) if cause == "uncached-pipeline" else train(4, work_ms=40)
    assert judge(cause, job) is not None
    described = {"operators": ("DecodeJpeg",), "iterators": 3} if "un" in cause else {}
    assert judge(cause, train(4, work_ms=40, batch_ms=5, **described)) is None


def test_a_parallel_stage_that_works_is_a_heavy_transform_with_what_it_calls():
    kinds = ("ReadFile", "DecodeJpeg", "RandomUniform")
    job = train(calls=2, batch_ms=90, operators=kinds, cores=1.8)
    top = diagnose_job([job]).findings[0]
    assert (top.cause, top.where[0].line) == ("heavy-cpu-transform", 19)
    assert "ReadFile, DecodeJpeg" in [each.value for each in top.evidence]


def test_python_that_works_is_heavy_however_many_calls_there_are():
    for calls in (1, 8):
        proof = judge("heavy-cpu-transform", train(calls=calls, cores=1.2))
        assert proof.facts.pipeline == "python"


@pytest.mark.parametrize(
    "other",
    [
        {"cores": 0.3, "calls": 8},
        {"cores": 1.8, "calls": 2, "batch_ms": 20},
        {"cores": 1.2, "calls": 1, "operators": ("DecodeJpeg", "RandomUniform")},
    ],
    ids=["it waits", "it is fast enough", "it is serial and may be parallel"],
)
def test_what_is_no_heavy_transform(other):
    assert judge("heavy-cpu-transform", train(**{"operators": ("RandomUniform",)} | other)) is None


def waiting(batch_ms=700, calls=16, threads=16, **more):
    return train(calls=calls, batch_ms=batch_ms, options={"threads": threads}, **more)


PAIRS["slow-data-source"] = Pair(sick=waiting, healthy=lambda: waiting(wait_ms=0))


def test_calls_that_wait_as_many_as_are_useful_wait_for_the_source():
    proof = judge("slow-data-source", waiting())
    assert proof.predicted.high > proof.predicted.speedup > 1.5
    assert judge("slow-data-source", waiting(threads=2)) is None
    assert judge("slow-data-source", waiting(cores=1.5)) is None
    assert judge("serial-map", waiting()) is None


def test_of_a_call_that_takes_its_batch_unseen_nothing_is_said():
    """TensorFlow before 2.18 has no model of its pipelines; the thread sleeps while others work."""
    job = RecordedJob(framework="tensorflow", cores=2.0)
    for _ in range(40):
        with job.call("optimizer\tModel.fit"):
            job.wait(pipeline_job.LOOP, ms(20))
        job.python("/job/train.py(31): <module>", ms(1))
    found = diagnose_job([job.timeline()])
    assert found.findings == []
    assert found.attribution.unknown > 0.8


ARITHMETIC = ("Placeholder", "Cast", "RealDiv", "Identity")


def map_first(operators=ARITHMETIC, size=64):
    """A parallel map of small elements before their batch."""
    nodes = [
        pipeline_job.node("Root", 30),
        pipeline_job.node("MapAndBatch", 30, 40, 2, bytes=30 * 32 * size),
        pipeline_job.node("TensorSlice", 30 * 32, 1, bytes=30 * 32 * size),
    ]
    return train(operators=operators, calls=2, nodes=nodes)


def test_arithmetic_on_single_elements_belongs_behind_batch():
    """It waits for nothing, whatever the CPU time of a busy machine says."""
    top = diagnose_job([map_first()]).findings[0]
    assert (top.cause, top.where[0].line) == ("serial-map", 19)
    assert [fix.fix for fix in top.fixes] == ["whole-batch-pipeline"]
    assert "batch first" in top.fixes[0].summary
    assert top.removal.low < 50 / 10 < top.removal.high


@pytest.mark.parametrize(
    "other", [{"operators": (*ARITHMETIC, "DecodePng")}, {"size": 10_000_000}, {"operators": ()}]
)
def test_other_maps_stay_where_they_are(other):
    plan = catalog.load_fixes()["whole-batch-pipeline"]
    findings = diagnose_job([map_first(**other)]).findings
    assert plan.id not in {fix.fix for found in findings for fix in found.fixes}


def rows(own_us=10, size=32):
    stages = [
        pipeline_job.stage("Batch", 20) | {"size": size},
        pipeline_job.stage("FlatMap", 5)
        | {"function": "flat_map_fn", "given": {"elements": 960, "ns": 960 * own_us * 1000}},
    ]
    return train(cores=1.0, stages=stages)


def test_a_generator_of_rows_should_give_batches():
    top = diagnose_job([rows()]).findings[0]
    assert (top.cause, top.where[0].line) == ("single-batch-generator", 5)
    assert "32 rows one by one" in top.headline
    assert [fix.fix for fix in top.fixes] == ["whole-batch-pipeline"]
    assert top.removal.low < 50 / 10 < top.removal.high
    assert top.removal.high < 3 * top.removal.low
    slow = judge("single-batch-generator", rows(own_us=1200))  # 38 of 50 ms are its own code
    assert slow.predicted.speedup == pytest.approx(50 / 38.4, rel=0.01)


def test_a_generator_of_whole_batches_is_judged_by_its_threads():
    assert "One thread" in judge("single-batch-generator", rows(size=1)).headline
