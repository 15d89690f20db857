"""Who switches a debugging mode on, and what the training thread sees of itself."""

import sys
import tracemalloc

import pytest
import standin

torch = pytest.importorskip("torch", reason="PyTorch is not installed")

from whyidle.probe.frameworks.torch import debug_modes, process_facts  # noqa: E402


@pytest.fixture
def loop():
    found = standin.Trained()
    found.modes = debug_modes.install_debug_modes(found)
    found.process = process_facts.FactsReader(found, found.modes.anomaly_requested)
    yield found
    for undo in list(found.undo.values())[::-1]:
        undo()


def test_the_first_line_that_asks_is_noted(loop):
    line = sys._getframe().f_lineno + 1
    with torch.autograd.set_detect_anomaly(True):
        assert torch.is_anomaly_enabled()
    assert not torch.is_anomaly_enabled()
    first = loop.modes.requested["anomaly_mode"].split(";")[0]
    assert first == f"{__file__}({line}): test_the_first_line_that_asks_is_noted"


def test_switching_it_off_is_not_asking(loop):
    torch.autograd.set_detect_anomaly(False)
    assert not loop.modes.requested


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
@pytest.mark.parametrize(
    ("module", "counts"), [("torch._functorch._aot_autograd", False), ("lightning.trainer", True)]
)
def test_what_the_compiler_switches_on_for_itself_is_none_of_the_job_s(loop, module, counts):
    inside = {
        "__name__": module,
        "torch": torch,
        "seen": lambda: loop.process.shared_switches(torch),
    }
    code = "with torch.autograd.detect_anomaly(check_nan=False):\n    found = seen()"
    exec(code, inside)
    assert inside["found"]["anomaly_mode"] == counts
    assert bool(loop.modes.requested) == counts


@pytest.mark.filterwarnings("ignore:Anomaly Detection")
def test_where_nobody_hears_who_asks_the_mode_itself_counts(loop):
    loop.undo.pop("set_detect_anomaly.__init__")()
    with torch.autograd.set_detect_anomaly(True):
        assert loop.process.shared_switches(torch)["anomaly_mode"]
    assert not loop.modes.requested
    assert not loop.process.shared_switches(torch)["anomaly_mode"]


def test_a_profiler_around_everything(loop):
    with torch.autograd.profiler.profile(enabled=False):
        pass
    assert "torch_profiler" in loop.modes.requested


def test_a_fault_takes_the_hook_off(loop, monkeypatch):
    kind = torch.autograd.set_detect_anomaly
    monkeypatch.setattr(debug_modes, "describe_stack", lambda frame: 1 / 0)
    wrapped = kind.__init__
    torch.autograd.set_detect_anomaly(True)
    torch.autograd.set_detect_anomaly(False)
    assert [where for where, _ in loop.faults] == ["set_detect_anomaly.__init__"]
    assert kind.__init__ is wrapped.__wrapped__


def test_looks_count_what_is_on(loop):
    loop.modes.on_look()
    before = sys.getprofile()
    sys.setprofile(lambda *_: None)
    try:
        loop.modes.on_look()
    finally:
        sys.setprofile(before)
    assert loop.facts["own"]["looks"] == 2
    assert loop.facts["own"]["profiling"] == 1 + (before is not None)


def test_traced_allocations_are_seen_with_the_line_that_began_it(loop):
    tracemalloc.start(5)
    modes = debug_modes.thread_modes()
    tracemalloc.stop()
    assert modes["tracemalloc_stacks"]
    assert not modes["tracemalloc"]
    assert __file__ in loop.modes.requested["tracemalloc"]
    assert not any(debug_modes.thread_modes().values())


@pytest.mark.parametrize(("flags", "lacks"), [("avx2 fma", True), ("avx512_bf16", False)])
def test_autocast_counts_where_the_processor_lacks_its_type(loop, monkeypatch, flags, lacks):
    monkeypatch.setattr(debug_modes, "_read_processor", lambda: flags)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        pass
    assert ("narrow_cpu" in loop.modes.requested) == lacks
    assert bool(loop.modes.narrowed) == lacks
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=False):
        pass
    assert loop.modes.narrowed == lacks


def test_rows_that_no_gradient_reaches_are_counted():
    table = torch.nn.Embedding(100, 4)
    optimizer = torch.optim.SGD(table.parameters(), lr=0.1)
    table(torch.tensor([1, 1, 7])).sum().backward()
    assert process_facts._count_unread(optimizer) == 98 * 4


def test_layers_without_a_gradient_are_no_tables():
    first, last = torch.nn.Linear(8, 64), torch.nn.Linear(64, 8)
    optimizer = torch.optim.SGD([*first.parameters(), *last.parameters()], lr=0.1)
    last(first(torch.randn(1, 8)).relu()).sum().backward()  # half of the units are off
    assert (~first.weight.grad.any(1)).any()
    assert process_facts._count_unread(optimizer) == 0
    optimizer.zero_grad()
    torch.nn.init.zeros_(last.weight)
    last(first(torch.randn(4, 8)).relu()).sum().backward()
    assert not first.weight.grad.any()
    assert process_facts._count_unread(optimizer) == 0
