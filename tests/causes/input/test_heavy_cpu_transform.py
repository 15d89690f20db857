"""Preparation between the GPU's work is found; what workers can hide in the loader is not."""

from dataclasses import replace

import numpy as np
import pytest
from imagined import MS, Imagined, finding

from cured_twins import covers, judge, judge_all, twin_speedup
from whyidle.model.loader_tables import BATCH, Loading
from whyidle.testing.builder import Builder, us
from whyidle.testing.contracts import Pair

GEMM = "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_64x3_tn"


def job(frame: str, duration: float, *, kernels: int = 0) -> Builder:
    made = Builder()
    for _ in range(5):
        with made.step(), made.span("/home/u/train.py(20): main", "python_function"):
            with made.span(frame, "python_function"):
                made.quiet(us(duration))
                for _ in range(kernels):
                    made.launch("vectorized_elementwise_kernel", us(3))
            for _ in range(20):
                made.op("aten::mm", kernels=[(GEMM, us(500))])
            made.sync()
    return made


@pytest.mark.parametrize(
    "frame",
    [
        "/usr/lib/python3/site-packages/PIL/Image.py(800): resize",
        "/home/u/prepare.py(8): preprocess_batch",
        "/home/u/clips.py(8): read_video_pyav",
        "transformers/models/vit/image_processing_vit.py(100): preprocess",
    ],
)
def test_preparation_in_the_loop_and_its_twin_in_workers(frame):
    proof = judge("heavy-cpu-transform", job(frame, 8_000))
    assert proof is not None
    assert covers(proof, twin_speedup(job(frame, 8_000), job(frame, 100)))
    assert proof.where[0].file is not None


@pytest.mark.parametrize(
    "frame",
    [
        "/home/u/collate_net.py(8): forward",
        "/home/u/datasets/train.py(3): train_one",
        "/home/u/model_processing_unit.py(3): step",
    ],
)
def test_names_that_only_sound_like_preparation(frame):
    assert judge("heavy-cpu-transform", job(frame, 8_000)) is None


def test_augmentation_that_launches_kernels_is_work_of_the_device():
    frame = "/home/u/prepare.py(8): preprocess_batch"
    assert judge("heavy-cpu-transform", job(frame, 8_000, kernels=3)) is None


def in_loader(duration: float, frame: str = "/home/u/data.py(5): __getitem__") -> Builder:
    made = Builder()
    for _ in range(4):
        with made.step():
            with made.span("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
                made.python(frame, us(duration))
            for _ in range(20):
                made.op("aten::mm", kernels=[(GEMM, us(500))])
            made.sync()
    return made


def test_a_loader_without_workers_has_one_cause():
    """Cheaper samples are advised there where workers cannot hide them."""
    for length in (40_000, 400_000):
        assert judge("heavy-cpu-transform", in_loader(length)) is None
    easy, heavy = (judge("dataloader-no-workers", in_loader(n)) for n in (1_000, 2_000_000))
    assert easy.facts.cheaper is None
    assert heavy.facts.cheaper.speedup > 1.5


def on_a_cpu(share: float):
    """A batch of 0.4 s in the training process, for so much of it on one of two cores."""
    batches = np.zeros(4, BATCH)
    batches["end"], batches["cpu"], batches["worker"] = us(400_000), share * us(400_000), -1
    told = Loading(cores=2.0, threads=1, batches=batches)
    return replace(in_loader(400_000).timeline(), loading=told)


def test_more_workers_than_cores_hide_what_waits():
    """Steps of 410 ms: 32 workers make a batch in 12.5 ms, and eight on two cores in 200."""
    works, waits = on_a_cpu(1.0), on_a_cpu(0.05)
    few = judge_all("dataloader-no-workers", [works])
    many = judge_all("dataloader-no-workers", [waits])
    assert (few.facts.workers, many.facts.workers) == (2, 32)
    assert few.predicted.speedup < 2.5
    assert many.predicted.speedup > 410 / 40


def test_that_a_thread_waited_is_no_function():
    """Of a watched process that waits, what was recorded is named by us."""
    cause = "dataloader-no-workers"
    proof = judge(cause, in_loader(400_000, "whyidle::blocked"))
    assert proof is not None
    assert not any("whyidle::" in str(one.value) for one in proof.evidence)
    assert proof.facts.function is None
    named = judge(cause, in_loader(400_000))
    assert any("__getitem__" in str(one.value) for one in named.evidence)


DECODING = (
    "/job/data.py(31): decode;/job/data.py(29): __getitem__;"
    "/lib/site-packages/torch/utils/data/fetch.py(54): fetch;"
    "/lib/site-packages/torch/utils/data/dataloader.py(785): _next_data;"
    "/job/train.py(64): main;/job/train.py(75): <module>"
)


def test_a_function_that_calls_native_code_is_where_it_happens(tmp_path):
    """No Python runs while it does, but in its callers."""
    made = Imagined(tmp_path)
    for _ in range(30):
        made.load(DECODING, 400 * MS)
    made.trained()
    found = finding(made.diagnose(), "dataloader-no-workers")
    assert found is not None
    assert found.headline.endswith("loading takes 400 ms per step, all of it at data.py:31")
    named = {one.quantity: one.value for one in found.evidence}
    assert named["costliest function"] == "/job/data.py(31): decode"


PREPARATION = "/home/u/prepare.py(8): preprocess_batch"
PAIRS = {
    "heavy-cpu-transform": Pair(
        sick=lambda: job(PREPARATION, 8_000), healthy=lambda: job(PREPARATION, 8_000, kernels=3)
    )
}
