"""Gradients of lookups and of parts of tensors are found in the loss's graph and timed."""

import pytest
import standin

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from whyidle.probe.frameworks.torch import indexing_gradients  # noqa: E402

IDS = torch.arange(6).reshape(2, 3)


class Tagger(torch.nn.Module):
    def __init__(self, sparse=False, tied=False):
        super().__init__()
        self.words = torch.nn.Embedding(1000, 4, sparse=sparse)
        self.out = torch.nn.Linear(4, 1000, bias=False)
        if tied:
            self.out.weight = self.words.weight

    def forward(self, ids):
        return self.out(self.words(ids))


def sizes(loss):
    reads = indexing_gradients.find_reads(loss)
    return sorted((read.size, read.read, read.table is not None) for read in reads)


def test_a_lookup_fills_its_whole_table():
    assert sizes(Tagger()(IDS).sum()) == [(4000, 24, True)]


@pytest.mark.parametrize("arguments", [{"sparse": True}, {"tied": True}])
def test_sparse_gradients_and_tables_that_are_output_layers_are_left_alone(arguments):
    assert sizes(Tagger(**arguments)(IDS).sum()) == []


def test_each_element_that_is_taken_fills_the_whole_tensor():
    logits = torch.ones(2, 3, 8, requires_grad=True) * 2
    loss = sum(logits[b, t].sum() for b in range(2) for t in range(3))
    assert sizes(loss).count((48, 24, False)) == 0, "half of a tensor is no small part"
    logits = torch.ones(8, 3, 8, requires_grad=True) * 2
    loss = sum(logits[b, t].sum() for b in range(8) for t in range(3))
    assert sizes(loss) == [(192, 24, False)] * 24


def test_what_is_indexed_once_is_left_alone():
    logits = torch.ones(8, 3, 8, requires_grad=True) * 2
    target = torch.zeros(24, dtype=torch.long)
    assert sizes(torch.nn.functional.cross_entropy(logits.flatten(0, 1), target)) == []
    assert sizes(sum(part.sum() for part in logits.unbind(1))) == []


def test_of_a_graph_that_is_too_large_nothing_is_known(monkeypatch):
    monkeypatch.setattr(indexing_gradients, "MOST_NODES", 3)
    assert sizes(Tagger()(IDS).sum()) == []


@pytest.fixture
def timing():
    loop = standin.Loop()
    found = indexing_gradients.IndexingGradients(loop)
    loop.add_listener(found)
    loop.recorder.facts = {"device": "cpu"}
    return found


def backward(timing, loss):
    timing.events.notify("on_backward_begin", (loss,))
    begin = indexing_gradients.clock_ns()
    loss.backward()
    timing.events.notify("on_backward_end", begin)


def test_some_passes_are_timed_and_the_gradients_stay_as_they_are(timing):
    net, same = Tagger(), Tagger()
    same.load_state_dict(net.state_dict())
    timing.on_training_begin(None)
    for _ in range(indexing_gradients.FIRST + indexing_gradients.PASSES + 2):
        backward(timing, net(IDS).square().sum())
        same(IDS).square().sum().backward()
    assert torch.equal(net.words.weight.grad, same.words.weight.grad)
    assert not timing.events.faults
    assert len(timing.passes) == indexing_gradients.PASSES
    for one in timing.passes:
        assert one["table_elements"] == one["filled"] == 4000
        assert one["read"] == 24
        assert 0 <= one["tables_ns"] < one["pass_ns"]
        assert one["parts"] == 0


def test_the_hooks_are_gone_after_their_pass(timing):
    timing.left = 1
    loss = Tagger()(IDS).sum()
    timing.events.notify("on_backward_begin", (loss,))
    begin = indexing_gradients.clock_ns()
    loss.backward(retain_graph=True)
    timing.events.notify("on_backward_end", begin)
    first = dict(timing.passes[0])
    loss.backward()
    assert timing.passes == [first]


def test_a_pass_inside_another_drops_both(timing):
    timing.left = 1
    outer, inner = Tagger()(IDS).sum(), Tagger()(IDS).sum()
    timing.events.notify("on_backward_begin", (outer,))
    backward(timing, inner)
    timing.events.notify("on_backward_end", 0)
    assert timing.passes == []


def test_a_model_without_such_gradients_is_not_looked_at_again(timing):
    timing.on_training_begin(None)
    for _ in range(indexing_gradients.FIRST + 1):
        backward(timing, torch.nn.Linear(3, 1)(torch.ones(3)).sum())
    timing.events.alerts = timing.next = 0
    timing.on_chore()
    assert not timing.events.alerts
    assert not timing.left


def test_nothing_is_timed_on_a_gpu(timing):
    timing.events.recorder.facts = {"device": "cuda"}
    timing.on_training_begin(None)
    assert not timing.left
