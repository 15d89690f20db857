"""Loops of short operators inside the model."""

import pytest

from cured_twins import judge
from whyidle import catalog
from whyidle.testing.contracts import Pair
from whyidle.testing.recorded_job import RecordedJob

CAUSE = "short-operators-in-model"
MS = 1_000_000
S = "/env/lib/python3.11/site-packages/"
MODEL = """class Net(nn.Module):
    def embed(self, words):
        tokens = []
        for word in words:
            tokens.append(self.chars(torch.tensor(word)).mean(0))
        return torch.stack(tokens)
    def forward(self, words):
        x = self.embed(words)
        for layer in self.layers:
            x = torch.relu(layer(x))
        return x
"""
CALL = f"{S}torch/nn/modules/module.py(1789): _call_impl;/job/train.py(3): <module>"
WORD = f"/job/net.py(5): embed;/job/net.py(8): forward;{CALL}"
LAYER = f"/job/net.py(10): forward;{CALL}"
BACKWARD = f"{S}torch/autograd/graph.py(9): _engine_run_backward;/job/train.py(4): <module>"


def train(words_ms=0, layers_ms=10, look="python", at=WORD):
    """The backward pass takes 1.6 times as long as the forward pass."""
    job = RecordedJob()
    job.sources = {"/job/net.py": MODEL}
    for _ in range(60):
        if words_ms:
            getattr(job, look)(at, words_ms * MS)
        job.work(LAYER, layers_ms * MS)
        job.backward(BACKWARD, int(1.6 * (words_ms + layers_ms) * MS))
        job.step(f"{S}torch/optim/sgd.py(9): step;/job/train.py(5): <module>", 5 * MS)
    return job


def test_the_loop_goes_with_its_part_of_the_backward_pass():
    proof = judge(CAUSE, train(words_ms=40))
    assert proof
    assert [(place.line, place.function) for place in proof.where] == [(5, "embed")]
    truth = (50 + 80 + 5) / (10 + 16 + 5)
    assert proof.predicted.low <= truth <= proof.predicted.high
    assert proof.predicted.speedup == pytest.approx(truth, rel=0.2)


def test_of_a_graph_that_is_nearly_all_a_loop_next_to_nothing_stays():
    job = train(words_ms=100, layers_ms=1)
    job.documents["bursts.json"] = {"bursts": [], "counted_s": (4000, 0.27)}
    proof = judge(CAUSE, job)
    truth = (101 * 2.6 + 5) / (1 * 2.6 + 5)
    assert truth / 4 < proof.predicted.low <= truth <= proof.predicted.high


def test_large_operators_in_a_loop_are_left_alone():
    assert judge(CAUSE, train(words_ms=40, look="work")) is None


def test_a_step_of_very_many_graph_nodes_has_short_operators():
    """Native dispatch hides the interpreter; the graph's nodes tell how short they are."""
    crowded, roomy = (train(words_ms=40, look="work") for _ in range(2))
    crowded.documents["bursts.json"] = {"bursts": [], "counted_s": (4000, 0.135)}
    roomy.documents["bursts.json"] = {"bursts": [], "counted_s": (400, 0.135)}
    proof = judge(CAUSE, crowded)
    assert proof
    assert proof.where[0].line == 5
    assert judge(CAUSE, roomy) is None


def test_a_loop_over_layers_is_left_alone():
    assert judge(CAUSE, train(words_ms=40, at=LAYER)) is None


def test_a_function_that_is_called_in_a_loop_belongs_to_it():
    job = train(words_ms=40, at=f"/job/letters.py(2): spell;{WORD}")
    assert [place.line for place in judge(CAUSE, job).where] == [2, 5]


ASSIGN = """def overlap(a, b):
    return torch.minimum(a, b)
def assign(boxes):
    out = torch.zeros(9)
    for box in boxes:
        out += overlap(box, anchors)
    return out
"""


def assigning(*looks):
    """Targets are assigned before the model runs; ``looks`` take turns at the helper's line."""
    job = RecordedJob()
    job.sources = {"/job/net.py": MODEL, "/job/boxes.py": ASSIGN}
    at = "/job/boxes.py(2): overlap;/job/boxes.py(6): assign;/job/train.py(2): <module>"
    for _ in range(60):
        for look in looks:
            getattr(job, look)(at, 10 * MS)
        job.work(LAYER, 10 * MS)
        job.backward(BACKWARD, 16 * MS)
        job.step(f"{S}torch/optim/sgd.py(9): step;/job/train.py(5): <module>", 5 * MS)
    return job


def test_a_loop_beside_the_model_has_no_part_of_the_backward_pass():
    proof = judge(CAUSE, assigning("python", "work", "python", "work"))
    assert [(place.line, place.function) for place in proof.where] == [
        (6, "assign"),
        (2, "overlap"),
    ]
    assert "backward" not in proof.headline
    assert proof.predicted.low <= 71 / 31 <= proof.predicted.high


@pytest.mark.parametrize("looks", [("python",) * 4, ("work",) * 4])
def test_beside_the_model_python_alone_and_large_operators_are_left_alone(looks):
    assert judge(CAUSE, assigning(*looks)) is None


TRAINER = """class Loop:
    def fit(self, loader):
        for batch in loader:
            self.one(batch)
    def one(self, batch):
        loss = self.model(batch).mean()
        loss.backward()
        self.optimizer.step()
"""


def test_the_loop_over_batches_of_a_trainer_is_left_alone():
    """Its step trains in another function: no source of the loop itself shows that."""
    fit = "/job/loop.py(4): fit;/job/train.py(3): <module>"
    called = f"{S}torch/nn/modules/module.py(1789): _call_impl"
    job = RecordedJob()
    job.sources = {"/job/net.py": MODEL, "/job/loop.py": TRAINER}
    for _ in range(60):
        job.python(f"/job/net.py(10): forward;{called};/job/loop.py(6): one;{fit}", 40 * MS)
        job.backward(
            f"{S}torch/autograd/graph.py(9): _engine_run_backward;/job/loop.py(7): one;{fit}",
            64 * MS,
        )
        job.step(f"{S}torch/optim/sgd.py(9): step;/job/loop.py(8): one;{fit}", 5 * MS)
    assert judge(CAUSE, job) is None


PAIRS = {CAUSE: Pair(sick=lambda: train(words_ms=40), healthy=lambda: train(40, look="work"))}


def test_a_loop_over_time_steps_is_replaced_by_the_layer_of_its_cell():
    job = train(words_ms=40)
    loop = "self.cell = nn.LSTMCell(8, 8)\n\n\nfor x in words:\n    h, c = self.cell(x, (h, c))\n"
    job.sources = {"/job/net.py": loop}
    proof = judge(CAUSE, job)
    assert "calls LSTMCell" in proof.headline
    assert proof.predicted.low < 1.5 < proof.predicted.speedup < 3 < proof.predicted.high
    fixes = [fix for fix in catalog.load_fixes().values() if CAUSE in fix.causes]
    assert [fix.id for fix in fixes if fix.decide(proof)] == ["recurrent-layer"]
