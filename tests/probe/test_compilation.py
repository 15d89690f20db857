"""What the probe notes of a compiler, without a compiler."""

import sys
import types

import pytest
import standin

from whyidle.probe.core.listener import Listener
from whyidle.probe.frameworks.torch import compilation


def forward():
    """Stands for a function of the job."""


class Module(types.ModuleType):
    """Stands for the compiler's module."""

    def __init__(self):
        super().__init__(compilation.MODULE)

    @staticmethod
    def _compile(code, *, skip=0, compile_id=None):
        if code is None:
            raise RuntimeError("of the job")
        return code, skip


@pytest.fixture
def job(monkeypatch):
    loop, module = standin.Loop(), Module()
    monkeypatch.setitem(sys.modules, compilation.MODULE, module)
    compilation.install_compile_hooks(loop)
    return loop, module


@pytest.fixture
def utils(monkeypatch):
    found = types.SimpleNamespace(guard_failures={})
    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", found)
    return found


def test_compilations_are_noted_and_the_second_is_one_again(job, utils):
    loop, module = job
    code = forward.__code__
    assert module._compile(code, skip=2) == (code, 3)
    utils.guard_failures[code] = ["L['x'].size(0) == 4"]
    module._compile(code)
    assert not loop.faults
    first, second = loop.spans
    assert first.startswith("whyidle::compile#")
    assert second.startswith("whyidle::compile again#")
    told = loop.documents["compiles.json"]
    assert (told["count"], told["functions"]) == (2, 1)
    assert [one["reason"] for one in told["compiles"]] == [None, "L['x'].size(0) == 4"]
    assert told["compiles"][0]["line"] == code.co_firstlineno


def test_the_last_metrics_tell_the_reason_where_they_have_one(job, utils):
    loop, module = job
    metrics = types.SimpleNamespace(co_name="forward", recompile_reason="size mismatch")
    utils.get_compilation_metrics = lambda: [metrics]
    module._compile(forward.__code__)
    module._compile(forward.__code__)
    assert loop.documents["compiles.json"]["compiles"][1]["reason"] == "size mismatch"


def test_the_compiler_s_own_errors_pass_and_are_noted(job, utils):
    loop, module = job
    with pytest.raises(RuntimeError, match="of the job"):
        module._compile(None)
    assert loop.faults[0][0] == "compile"  # no code object to look at: the wrapper came off
    assert module._compile is Module._compile


def test_hooks_ask_whether_they_are_traced_before_anything_is(monkeypatch, utils):
    loop, module = standin.Loop(), Module()
    asked = []
    module._compile = lambda code: asked.append(loop.asked)
    monkeypatch.setitem(sys.modules, compilation.MODULE, module)
    compilation.install_compile_hooks(loop)
    assert loop.asked == 0
    module._compile(forward.__code__)
    assert asked == [1]


def test_a_compiler_that_cannot_be_wrapped_may_always_trace(monkeypatch):
    loop = standin.Loop()
    monkeypatch.setitem(sys.modules, compilation.MODULE, types.ModuleType(compilation.MODULE))
    compilation.install_compile_hooks(loop)
    assert loop.faults[0][0] == "compile"
    assert loop.asked


def test_a_failed_compilation_is_told(monkeypatch, utils):
    loop, module = standin.Loop(), Module()
    module._compile = lambda code: (_ for _ in ()).throw(ValueError("limit"))
    monkeypatch.setitem(sys.modules, compilation.MODULE, module)
    compilation.install_compile_hooks(loop)
    with pytest.raises(ValueError, match="limit"):
        module._compile(forward.__code__)
    assert loop.documents["compiles.json"]["compiles"][0]["failed"] == "ValueError"


def test_a_fault_of_ours_takes_the_wrapper_off(job):
    loop, module = job
    loop.add_span = None  # not callable
    before = loop.asked
    assert module._compile(forward.__code__) == (forward.__code__, 0)
    assert loop.faults[0][0] == "compile"
    assert module._compile is Module._compile
    assert loop.asked > before + 1  # nobody tells of the next compilation


def test_backward_passes_compile_later(job, utils, monkeypatch):
    loop, module = job
    listening = types.SimpleNamespace(start_callbacks=[], end_callbacks=[])
    listening.register_start_callback = listening.start_callbacks.append
    listening.register_end_callback = listening.end_callbacks.append
    trigger = types.SimpleNamespace(DYNAMO=1)
    callbacks = types.SimpleNamespace(callback_handler=listening, CallbackTrigger=trigger)
    monkeypatch.setitem(sys.modules, "torch._dynamo.callback", callbacks)
    module._compile(forward.__code__, compile_id="0/0")
    module._compile(forward.__code__, compile_id="0/1")
    (begins,), (ends,) = listening.start_callbacks, listening.end_callbacks
    for kind, number in ((1, "0/0"), (2, "0/1")):
        args = types.SimpleNamespace(callback_trigger=kind, compile_id=number)
        begins(args)
        ends(args)
    assert not loop.faults
    assert loop.spans[2:] == [loop.spans[1]]


def test_it_waits_for_the_job_to_import_the_compiler(monkeypatch, tmp_path):
    name = "a_module_to_wait_for"
    monkeypatch.setattr(compilation, "MODULE", name)
    (tmp_path / f"{name}.py").write_text("def _compile(code):\n    return 5\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    before, loop = list(sys.meta_path), standin.Loop()
    compilation.install_compile_hooks(loop)
    module = __import__(name)
    monkeypatch.delitem(sys.modules, name)
    assert sys.meta_path == before
    assert module._compile(forward.__code__) == 5
    assert loop.spans
    loop.undo["compile"]()
    assert module._compile.__module__ == name
    assert not hasattr(module._compile, "__wrapped__")


def test_a_job_that_compiles_nothing_keeps_a_finder_only(monkeypatch):
    monkeypatch.delitem(sys.modules, compilation.MODULE, raising=False)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    before, loop = list(sys.meta_path), standin.Loop()
    compilation.install_compile_hooks(loop)
    assert len(sys.meta_path) == len(before) + 1
    assert sys.meta_path[0].find_spec("json") is None
    assert loop.asked == 0
    loop.undo["compile"]()
    assert sys.meta_path == before
    assert loop.asked == 1


def test_listeners_hear_from_when_to_when(job, utils):
    class Hears(Listener):
        listener = "it"

        def on_compilation(self, begin, end):
            self.heard = begin, end

    loop, module = job
    loop.add_listener(hears := Hears())
    module._compile(forward.__code__)
    begin, end = hears.heard
    assert begin < end
