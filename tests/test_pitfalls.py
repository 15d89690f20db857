"""What other tools were criticised for, where no test beside the code in question says it.

Elsewhere:

* readings that a device cannot give, and sentinels: ``sources/test_nvml.py``
* a monitor that costs too much: ``record/test_monitor.py``
* another profiler at work: ``probe/test_bursts.py``, ``probe/test_profiler.py``
* a wait charged to the call that blocks: ``causes/host/test_per_step_host_sync.py``
* advice about workers where data is no bottleneck: ``causes/input/test_loader_workers.py``
* no step marker: ``live/test_steps_and_phases.py``
* launchers taken for ranks: ``live/test_launchers.py``
"""

import ast
import re
from dataclasses import replace
from pathlib import Path

import pytest

from watched_run import add_facts
from whyidle import catalog
from whyidle.analysis.facts import Facts
from whyidle.record import rank_roster
from whyidle.testing.builder import Builder, us

ROOT = Path(__file__).parent.parent
PROBE = ROOT / "src" / "whyidle" / "probe"
ONCE_PER_BURST = {("profiler.py", "stop")}
"""waits for the device where a short recording ends, or its last kernels would be missing"""
TWICE_PER_ARM = {("device_progress.py", "wait_for_device"), ("trial_state.py", "synchronize")}
"""of a trial only: what lies between two waits has been done between them"""
AT_LOOKS = {("repeated_pass.py", "_wait"), ("rank_look.py", "_time_reduction")}
"""of ``--look`` and ``whyidle scale`` only, which cost the time of some steps by agreement"""


def waiting_calls(path):
    """(file, function) of every call of something named ``synchronize``."""
    for function in ast.walk(ast.parse(path.read_text())):
        if isinstance(function, ast.FunctionDef):
            for node in ast.walk(function):
                if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "synchronize":
                    yield path.name, function.name


def test_nothing_in_the_hot_path_waits_for_a_device():
    found = {call for path in PROBE.rglob("*.py") for call in waiting_calls(path)}
    assert found <= ONCE_PER_BURST | TWICE_PER_ARM | AT_LOOKS


def test_no_dependency_has_an_upper_bound():
    text = (ROOT / "pyproject.toml").read_text()
    needed = re.findall(r'^  "([\w-]+[^"]*>=[^"]*)"|\["([^"]*>=[^"]*)"\]', text, re.M)
    assert len(needed) > 5
    versions = [one.partition(";")[0] for pair in needed for one in pair]
    assert not [one for one in versions if re.search(r"<|==|~=", one)]


def copying(*, prepared):
    """A step whose batch is copied to the device by the loader itself, or behind it."""
    made = Builder()
    for _ in range(6):
        with made.step():
            with made.span("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"):
                made.quiet(us(50))
                if prepared:
                    made.copy("h2d", 50_000_000, pinned=False)
            if not prepared:
                made.copy("h2d", 50_000_000, pinned=False)
            for _ in range(10):
                made.op("aten::mm", kernels=[("gemm", us(300))], host=us(10))
            made.optimizer([("multi_tensor_apply_kernel", us(50))])
            made.sync()
    return Facts(made.timeline())


def test_a_copy_inside_a_prepared_loader_is_a_copy_all_the_same():
    inside, outside = copying(prepared=True), copying(prepared=False)
    assert inside.step_s == pytest.approx(outside.step_s, rel=0.01)
    assert inside.bucket_share("transfer") == pytest.approx(
        outside.bucket_share("transfer"), abs=0.01
    )
    assert inside.bucket_share("transfer") > 0.5


def test_a_rank_out_of_memory_is_named_while_the_others_hang(tmp_path):
    ranks = []
    for rank in (0, 1):
        made = Builder()
        with made.step():
            made.quiet(us(100))
        died = "OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB"
        told = {"died_of": died, "ended": 5} if rank == 1 else {}
        ranks.append(add_facts(replace(made.timeline(), rank=rank, world_size=2), told))
    (note,) = rank_roster.notes_on(tmp_path, ranks, 137)
    assert note.startswith("rank 1 ended by OutOfMemoryError: CUDA out of memory")


def test_a_larger_batch_is_never_without_consent():
    assert catalog.load_fixes()["larger-batch"].consent == "convergence"
