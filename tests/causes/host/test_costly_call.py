"""Lines of the job, and functions of libraries below them, with much of the step."""

import pytest

from cured_twins import judge
from whyidle.testing.contracts import Pair
from whyidle.testing.recorded_job import RecordedJob

CAUSE = "costly-call"
MS = 1_000_000
S = "/env/lib/python3.11/site-packages/"
TRAIN = """for step in range(n):
    pick = buffer.draw(32)
    out = model(pick)
    log.debug(f"{out}")
    loss = f.mse_loss(out, y)
    loss.backward()
    opt.step()
"""
DRAW = "/job/buffer.py(4): draw;/job/train.py(2): <module>"
SUM = "/job/buffer.py(5): draw;/job/train.py(2): <module>"
MODEL = f"{S}torch/nn/modules/linear.py(134): forward;/job/train.py(3): <module>"
WEIGHT = (
    f"{S}torch/nn/utils/parametrizations.py(91): forward;"
    f"{S}torch/nn/utils/parametrize.py(440): get_parametrized;"
    f"{S}torch/nn/modules/linear.py(134): forward;/job/net.py(9): forward;"
    "/job/train.py(3): <module>"
)
TEXT = (
    f"{S}torch/_tensor_str.py(280): _vector_str;{S}torch/_tensor.py(564): __repr__;"
    "/job/train.py(4): <module>"
)
BACKWARD = f"{S}torch/autograd/graph.py(9): _engine_run_backward;/job/train.py(6): <module>"


def train(*beside, model_ms=10, backward_ms=20, look="work", source=TRAIN):
    job = RecordedJob()
    job.sources = {"/job/train.py": source, "/job/buffer.py": "# how items are drawn\n" * 9}
    for _ in range(60):
        for stack, ms in beside:
            getattr(job, look)(stack, ms * MS)
        job.work(MODEL, model_ms * MS)
        job.backward(BACKWARD, backward_ms * MS)
        job.step(f"{S}torch/optim/adam.py(9): step;/job/train.py(7): <module>", 5 * MS)
    return job


def test_the_innermost_line_above_most_of_the_step_is_named_with_what_it_calls():
    proof = judge(CAUSE, train((DRAW, 40), (SUM, 30)))
    assert proof
    assert "in draw, called at train.py:2, mostly at buffer.py:4, 5" in proof.headline
    assert [(place.file, place.line) for place in proof.where[:2]] == [
        ("/job/train.py", 2),
        ("/job/buffer.py", 4),
    ]
    assert proof.removal.low <= 105 / 35 <= proof.removal.high
    assert proof.removal.high < 1.3 * proof.removal.low
    assert proof.predicted.low == 1.0  # only its author knows what is needed
    assert proof.predicted.high == pytest.approx(proof.removal.high)


def test_one_line_with_most_of_it_is_named_itself():
    proof = judge(CAUSE, train((DRAW, 60), (SUM, 5)))
    assert proof
    assert proof.where[0].line == 4


def test_less_than_half_of_the_step_is_not_named():
    assert judge(CAUSE, train((DRAW, 20))) is None


def test_a_model_with_most_of_the_step_is_the_training_itself():
    assert judge(CAUSE, train(model_ms=80)) is None


def test_a_weight_that_is_computed_anew_has_its_part_of_the_backward_pass():
    proof = judge(CAUSE, train((WEIGHT, 30), backward_ms=60))
    assert proof
    assert "computing a parametrized weight" in proof.headline
    assert proof.where[0].line == 9
    assert proof.predicted.speedup == pytest.approx(105 / 33, rel=0.2)


def test_texts_of_tensors_count_below_half_of_the_step():
    proof = judge(CAUSE, train((TEXT, 15)))
    assert proof
    assert "texts of tensors" in proof.headline
    assert proof.predicted.speedup == pytest.approx(50 / 35, rel=0.1)


def test_a_tensor_of_a_list_is_told_by_the_text_of_its_line():
    source = TRAIN.replace("buffer.draw(32)", "torch.tensor(rows, dtype=torch.float32)")
    line = "/job/train.py(2): <module>"
    proof = judge(CAUSE, train((line, 60), source=source, look="python"))
    assert proof
    assert "a tensor made from a list" in proof.headline
    copied = source.replace("(rows,", "(np.stack(rows),")
    told = judge(CAUSE, train((line, 60), source=copied, look="work"))
    assert told is None or "list" not in told.headline


def test_python_of_the_job_is_left_to_its_own_cause():
    assert judge(CAUSE, train((DRAW, 60), look="python")) is None


PAIRS = {CAUSE: Pair(sick=lambda: train((DRAW, 60)), healthy=train)}
