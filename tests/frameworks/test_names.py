"""Which role a name plays: as the process said, or as its framework spells it."""

import pickle

import pytest

from whyidle.analysis.facts import Facts
from whyidle.frameworks.jax import names as jax_names
from whyidle.frameworks.tensorflow import names as tensorflow_names
from whyidle.frameworks.torch.names import VOCABULARY
from whyidle.model.roles import Role
from whyidle.model.timeline import HostKind
from whyidle.testing.builder import Builder, us
from whyidle.testing.recorded_job import RecordedJob

LINE = "/job/train.py(5): main"
MS = 1_000_000


@pytest.mark.parametrize(
    ("role", "name"),
    [
        (Role.BATCH_INLINE, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"),
        (Role.BATCH_FROM_WORKERS, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"),
        (Role.LOADER, "[pl][profile][_TrainingEpochLoop].train_dataloader_next"),
        (Role.OPTIMIZER, "Optimizer.step#AdamW.step"),
        (Role.BACKWARD_NODE, "autograd::engine::evaluate_function: AddmmBackward0"),
        (Role.EVALUATION, "trainer.py(10): evaluate"),
        (Role.CHECKPOINT, "torch/serialization.py(900): save"),
        (Role.TRAINING_STEP, "Train_Step 4"),
        (Role.SYNC, "cudaStreamSynchronize"),
        (Role.ALLOCATOR, "cudaMalloc"),
        (Role.CONVOLUTION, "aten::cudnn_convolution_transpose"),
        (Role.GRADIENT_SEARCH, "torch.distributed.ddp.reducer::search_unused_parameters"),
    ],
)
def test_how_pytorch_spells_a_role(role, name):
    assert VOCABULARY.plays(role, name)


@pytest.mark.parametrize(
    ("name", "saves"),
    [
        ("site-packages/numpy/lib/_npyio_impl.py(800): _savez", True),
        ("site-packages/numpy/lib/npyio.py(640): savez_compressed", True),  # before NumPy 2
        ("site-packages/flax/serialization.py(300): to_bytes", True),
        ("site-packages/flax/serialization.py(300): from_bytes", False),
        ("site-packages/numpy/lib/_npyio_impl.py(400): load", False),
    ],
)
def test_how_jobs_of_jax_save_their_weights(name, saves):
    assert jax_names.VOCABULARY.plays(Role.CHECKPOINT, name) == saves


def test_batches_that_keras_makes_on_jax_are_loaded():
    made = "site-packages/keras/src/trainers/data_adapters/py_dataset_adapter.py(338): get_iterator"
    assert jax_names.VOCABULARY.plays(Role.LOADER, made, HostKind.PYTHON)


@pytest.mark.parametrize(
    ("role", "name"),
    [
        (Role.BATCH_FROM_WORKERS, "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"),
        (Role.OPTIMIZER, "Optimizer.zero_grad#AdamW.zero_grad"),
        (Role.EVALUATION, "pydantic/main.py(10): validate"),
        (Role.ALLOCATOR, "cudaMallocAsync"),
        (Role.CONVOLUTION, "aten::conv2d"),
    ],
)
def test_what_only_looks_like_it(role, name):
    assert not VOCABULARY.plays(role, name)


def test_the_kind_of_an_event_counts():
    """A function of the user's that is called as a call of the runtime is none."""
    job = Builder()
    with job.step():
        job.python("cudaDeviceSynchronize", us(10))
        job.sync("cudaDeviceSynchronize")
    timeline = job.timeline()
    (row,) = timeline.rows_of(Role.SYNC)
    assert timeline.host.kind[row] == HostKind.RUNTIME


def test_the_optimizers_class_is_its_label():
    job = Builder()
    with job.step(), job.span("Optimizer.step#AdamW.step"):
        job.quiet(us(10))
    timeline = job.timeline()
    (name,) = timeline.names_of(Role.OPTIMIZER)
    assert timeline.label(Role.OPTIMIZER, int(name)) == "AdamW"


def trained(**called: str) -> RecordedJob:
    """A watched job that calls things as no framework does."""
    job = RecordedJob()
    for _ in range(20):
        with job.call(called["batch"]):
            job.python(LINE, 10 * MS)
        with job.call(called["update"]):
            job.work(LINE, 5 * MS)
    return job


def test_a_role_that_the_process_gives_needs_no_spelling():
    timeline = trained(
        batch="batch_inline\tnext(dataset)", update="optimizer\tapply_gradients"
    ).timeline()
    assert {"next(dataset)", "apply_gradients"} <= set(timeline.names)
    assert len(timeline.rows_of(Role.LOADER)) == 20
    assert len(timeline.rows_of(Role.BATCH_INLINE)) == 20
    assert not len(timeline.rows_of(Role.BATCH_FROM_WORKERS))
    assert Facts(timeline).steps.found_by == "optimizer"


def test_it_beats_the_spelling():
    timeline = trained(
        batch="checkpoint\tenumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
        update="optimizer\tsave_checkpoint",
    ).timeline()
    assert not len(timeline.rows_of(Role.LOADER))
    (save,), (update,) = map(timeline.names_of, (Role.CHECKPOINT, Role.OPTIMIZER))
    assert timeline.names[save].startswith("enumerate")
    assert timeline.names[update] == "save_checkpoint"


def test_a_role_that_leaves_something_open_is_told_by_the_name():
    timeline = trained(
        batch="collective\tgloo:all_reduce", update="never_heard_of\tOptimizer.step#SGD.step"
    ).timeline()
    (exchange,), (update,) = map(timeline.names_of, (Role.HOST_ALL_REDUCE, Role.OPTIMIZER))
    assert timeline.names[exchange] == "gloo:all_reduce"
    assert timeline.names[update] == "Optimizer.step#SGD.step"


def test_a_vocabulary_goes_to_another_process_and_back():
    VOCABULARY.plays(Role.OPTIMIZER, "x")
    assert pickle.loads(pickle.dumps(VOCABULARY)) == VOCABULARY


@pytest.mark.parametrize(
    ("frame", "computes"),
    [
        ("eager/execute.py(53): quick_execute", True),
        ("ops/gen_math_ops.py(477): add_v2", True),
        ("ops/gen_dataset_ops.py(3478): make_iterator", True),
        ("ops/gen_dataset_ops.py(3200): iterator_get_next", False),
        ("ops/gen_io_ops.py(560): read_file", False),
        ("distribute/mirrored_run.py(226): _call_for_each_replica", False),
    ],
)
def test_where_threads_of_tensorflow_compute(frame, computes):
    path = f"site-packages/tensorflow/python/{frame}"
    assert tensorflow_names.VOCABULARY.plays(Role.COMPUTE_FRAME, path) == computes
