"""Results that every epoch computes again for the same samples."""

import pytest

from cured_twins import judge
from whyidle.testing.contracts import Pair
from whyidle.testing.recorded_job import RecordedJob

CAUSE = "same-result-again"
MS = 1_000_000
S = "/env/lib/python3.11/site-packages/"
TABLE = f"{S}torch/utils/data/dataset.py(206): __getitem__"
COLLATE = f"{S}torch/utils/data/_utils/collate.py(335): default_collate"
TEXT = """vae = Autoencoder().eval()
for epoch in range(9):
    for (x,) in loader:
        with torch.no_grad():
            z = vae.encode(x)
        loss = net(z).mean()
        loss.backward()
        opt.step()
"""
CALL = f"{S}torch/nn/modules/module.py(1789): _call_impl"
ENCODE = f"{S}torch/nn/modules/conv.py(9): forward;{CALL};/job/train.py(5): <module>"
MODEL = f"{S}torch/nn/modules/linear.py(9): forward;{CALL};/job/train.py(6): <module>"
BACKWARD = f"{S}torch/autograd/graph.py(9): _engine_run_backward;/job/train.py(7): <module>"


def train(encode_ms=40, *, making=TABLE, collating=COLLATE, text=TEXT):
    """The encoder takes ``encode_ms`` of a step whose other parts take 31 ms."""
    job = RecordedJob()
    job.sources = {"/job/train.py": text}
    job.documents["loaders.json"] = {
        "settings": [{"workers": 0, "making": making, "collating": collating}]
    }
    for _ in range(60):
        if encode_ms:
            job.work(ENCODE, encode_ms * MS)
        job.work(MODEL, 10 * MS)
        job.backward(BACKWARD, 16 * MS)
        job.step(f"{S}torch/optim/sgd.py(9): step;/job/train.py(8): <module>", 5 * MS)
    return job


def test_a_frozen_encoder_is_named_with_what_keeping_its_output_brings():
    proof = judge(CAUSE, train())
    assert [place.line for place in proof.where] == [5]
    assert proof.facts.text == "z = vae.encode(x)"
    assert proof.predicted.low <= (71 / 31 + 71 / 35) / 2 <= proof.predicted.high
    assert proof.predicted.speedup == pytest.approx(71 / 35, rel=0.05)


def test_samples_that_may_differ_are_not_assumed_to_be_the_same():
    assert judge(CAUSE, train(making="/job/train.py(1): __getitem__")) is None
    assert judge(CAUSE, train(collating="/job/train.py(1): augment")) is None


def test_a_network_that_is_trained_is_left_alone():
    assert judge(CAUSE, train(text=TEXT.replace(".eval()", ""))) is None


PAIRS = {CAUSE: Pair(sick=train, healthy=lambda: train(encode_ms=0))}
