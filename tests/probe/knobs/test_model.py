"""The model as a whole: which module it is, and what becomes of it."""

import collections
import copy
import dataclasses
import functools
import gc
import pickle
import weakref
from typing import NamedTuple

import pytest
import small_jobs as jobs
import torch
from torch._inductor.codegen import common

from whyidle.probe.knobs import model as knobs

COMPILE = {"model.compile": True}
AUTOCAST = {"autocast.dtype": "bfloat16"}


@pytest.fixture
def compiled(monkeypatch):
    """Which modules were compiled, and how; none is really."""
    seen = []
    monkeypatch.setattr(knobs, "_compile_in_place", lambda model, **kw: seen.append((model, kw)))
    before = torch._dynamo.config.suppress_errors
    yield seen
    torch._dynamo.config.suppress_errors = before


def test_the_outermost_module_is_the_model(turn, compiled):
    net = jobs.model()
    session = turn(COMPILE)
    with torch.no_grad():
        net[0](torch.ones(1, 8))  # a look at a layer before training
    jobs.train(net)
    assert compiled == [(net, {"dynamic": None})]
    assert session.applied == {"model.compile": 1}


@pytest.mark.parametrize("knob", [COMPILE, AUTOCAST])
def test_a_model_that_the_script_drops_is_gone(turn, compiled, knob):
    """A sweep that makes one after the other wants the memory back."""
    session = turn(knob)
    net = jobs.model()
    jobs.train(net)
    assert session.applied
    compiled.clear()
    seen = weakref.ref(net)
    del net
    gc.collect()
    assert seen() is None


class Own(torch.nn.Module):
    """A model as scripts define it."""

    def __init__(self):
        super().__init__()
        self.layers = jobs.model()

    def forward(self, x):
        return self.layers(x).relu()


@pytest.mark.parametrize("how", ["function", "method", "decorator"])
@pytest.mark.parametrize(("asked", "most"), [({}, 4), ({"model.compile_dynamic": True}, 1)])
def test_what_the_script_compiles_serves_every_length(turn, how, asked, most):
    """Four lengths, and a script that asks for code for each."""
    torch._dynamo.reset()
    graphs = []

    def backend(graph, _):
        graphs.append(graph)
        return graph.forward

    session = turn(asked)
    net, words = Own(), {"backend": backend, "dynamic": False}
    if how == "method":
        net.compile(**words)
        call = net
    else:
        call = torch.compile(**words)(net) if how == "decorator" else torch.compile(net, **words)
    found = [call(torch.ones(rows, 8)).detach() for rows in (3, 4, 5, 6)]
    assert len(graphs) == most
    plain = Own()
    for rows, each in zip((3, 4, 5, 6), found, strict=True):
        assert torch.equal(each, plain(torch.ones(rows, 8)))
    assert (session.applied.get("model.compile_dynamic", 0) > 0) == bool(asked)
    session.undo_changes()
    torch._dynamo.reset()


def test_where_nothing_is_compiled_it_takes_no_hold(turn):
    session = turn({"model.compile_dynamic": True})
    jobs.train(jobs.model())
    assert not session.applied


class Parts(torch.nn.Module):
    """What a framework's step does: it calls the parts, never the whole."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.body, self.head = jobs.model(), torch.nn.Linear(1, 1)

    def step(self, x):
        return self.head(self.body(x))


@pytest.mark.skipif(
    not hasattr(common, "init_backend_registration"), reason="this PyTorch cannot be asked"
)
def test_a_device_that_the_compiler_has_nothing_for(turn, compiled, monkeypatch):
    net = jobs.model()
    monkeypatch.setattr(common, "get_scheduling_for_device", lambda _kind: None)
    session = turn(COMPILE)
    jobs.train(net)
    assert not compiled
    assert session.declined["model.compile"].endswith("not support the device 'cpu'")


def test_parts_that_are_called_by_themselves_are_all_it(turn, compiled):
    turn(COMPILE)
    net = Parts()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        net.step(torch.ones(2, 8)).sum().backward()
        optimizer.step()
    assert [one for one, _ in compiled] == [net.body, net.head]


def test_a_frozen_teacher_is_not_it(turn, compiled):
    teacher, net = jobs.model().requires_grad_(False), jobs.model()
    turn(COMPILE)
    teacher(torch.ones(1, 8))
    jobs.train(net)
    assert [one for one, _ in compiled] == [net]


def test_after_a_step_no_more_is_looked_for(turn, compiled):
    hooks = torch.nn.modules.module._global_forward_pre_hooks
    turn(COMPILE)
    assert hooks
    jobs.train(jobs.model(), steps=1)
    assert not hooks
    jobs.train(jobs.model(), steps=1)
    assert len(compiled) == 1


@pytest.mark.parametrize("make", [jobs.model, Own])
def test_a_model_of_any_class_is_compiled(turn, monkeypatch, make):
    """Nothing of a bare ``nn.Sequential`` is code that the compiler looks at by itself."""
    plain, compile_ = jobs.train(make()), torch.compile
    monkeypatch.setattr(torch, "compile", functools.partial(compile_, backend="eager"))
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    session = turn(COMPILE)
    net = make()
    assert jobs.train(net) == plain
    assert session.applied == {"model.compile": 1}
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] >= 1
    assert pickle.loads(pickle.dumps(net)).state_dict().keys() == net.state_dict().keys()
    copy.deepcopy(net)


def test_what_is_compiled_already_is_let_be(turn):
    plain = jobs.train(torch.compile(jobs.model(), backend="eager"))
    session = turn(COMPILE)
    assert jobs.train(torch.compile(jobs.model(), backend="eager")) == plain
    assert session.declined == {"model.compile": "it is compiled already"}


def test_a_fault_leaves_the_model_as_it_was(turn, faults, monkeypatch):
    def broken(*_, **__):
        raise ZeroDivisionError("a planted fault")

    plain = jobs.train(jobs.model())
    monkeypatch.setattr(torch, "compile", broken)
    session = turn(COMPILE)
    assert jobs.train(jobs.model()) == plain
    assert "planted" in session.declined["model.compile"]
    assert len(faults(session)) == 1


class Images(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.conv = torch.nn.Conv2d(3, 4, 3)
        self.narrow = []

    def forward(self, x, scale=1.0):
        self.narrow.append(torch.is_autocast_enabled("cpu"))
        return self.conv(x) * scale


def test_others_of_its_class_and_copies_are_let_be(turn):
    turn(AUTOCAST)
    net, other = Images(), Images()
    data = torch.randn(2, 3, 8, 8)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(2):
        net(data).sum().backward()
        optimizer.step()
    double = copy.deepcopy(net)
    for one in (net, other, double):
        one.narrow.clear()
        one(data)
    assert (net.narrow, other.narrow, double.narrow) == ([True], [False], [False])
    assert type(pickle.loads(pickle.dumps(net))) is Images


class Finer(Images):
    """A class that inherits its call."""


@pytest.mark.parametrize("kinds", [(Images, Images), (Images, Finer), (Finer, Images)])
def test_several_models_of_related_classes(turn, kinds):
    turn(AUTOCAST)
    nets = [kind() for kind in kinds]
    for _ in range(2):
        for net in nets:
            net(torch.randn(2, 3, 8, 8))
    assert [net.narrow for net in nets] == [[False, True]] * 2


def test_autocast_gives_back_what_losses_are_made_of(turn):
    plain = jobs.train(jobs.model())
    session = turn({"autocast.dtype": "bfloat16", "autocast.grad_scaler": False})
    kinds = []

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = jobs.model()

        def forward(self, x):
            found = self.inner(x)
            kinds.append(found.dtype)
            return {"out": [found], "same": (found.long(),)}

    net = Net()
    for _ in range(2):
        found = net(torch.ones(2, 8))
    assert kinds == [torch.float32, torch.bfloat16]
    assert found["out"][0].dtype == torch.float32
    assert found["same"][0].dtype == torch.long
    assert session.applied == {"autocast.dtype": 1, "autocast.grad_scaler": 1}
    session.undo_changes()
    turn({"autocast.dtype": "bfloat16"})
    treated = jobs.train(jobs.model())
    assert treated != plain
    assert treated == pytest.approx(plain, rel=0.1)


class Output(collections.OrderedDict):
    """As the results of Hugging Face's models: what is set as an item is an attribute, too."""

    def __setitem__(self, name, value):
        super().__setitem__(name, value)
        super().__setattr__(name, value)


class Pair(NamedTuple):
    logits: torch.Tensor
    more: tuple


@dataclasses.dataclass(frozen=True)
class Record:
    logits: torch.Tensor
    step: int = 0


@pytest.mark.parametrize("kind", [Output, Pair, Record])
def test_results_of_other_kinds_are_full_again(turn, kind):
    kept = []

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = jobs.model()

        def forward(self, x):
            found = self.inner(x)
            made = {Output: lambda: Output(logits=found), Pair: lambda: Pair(found, (found,))}
            kept.append(made.get(kind, lambda: Record(found))())
            return kept[-1]

    turn({"autocast.dtype": "bfloat16"})
    net = Net()
    for _ in range(2):
        found = net(torch.ones(2, 8))
    assert type(found) is kind
    assert found.logits.dtype == torch.float32
    assert kept[-1].logits.dtype == torch.bfloat16  # what the model keeps is its own
    assert kind is not Output or found["logits"] is found.logits
    assert kind is not Pair or found.more[0].dtype == torch.float32


def test_half_precision_needs_a_scaler(turn):
    session = turn({"autocast.dtype": "float16", "autocast.grad_scaler": True})
    assert "GradScaler" in session.declined["autocast.dtype"]
    assert not session.undo


def test_what_needs_another_line_says_so(turn):
    session = turn({"model.depth": 3})
    assert "cannot be applied while the script runs" in session.declined["model.depth"]
    assert not session.undo
