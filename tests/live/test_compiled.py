"""Jobs under torch.compile: what goes wrong with it is the first finding, with its line."""

import os

import pytest

pytest.importorskip("torch")

pytestmark = pytest.mark.live

HEAD = """
import sys, torch
import torch._inductor.compile_fx
torch.manual_seed(0)
torch.set_num_threads(1)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = torch.nn.Linear(256, 256), torch.nn.Linear(256, 8)

    def forward(self, x):  # MODEL
        return self.last(torch.relu(self.first(x)) * 0.5)

model = Net()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

def train(fast, sizes):
    for size in sizes:
        loss = fast(torch.randn(size, 16, 256)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(loss.item())
"""
STORM = """
train(torch.compile(model, dynamic=False), [32 + 4 * (step // 3) for step in range(21)])
"""
DYNAMIC = """
fast = torch.compile(model, dynamic=True, backend="aot_eager")
train(fast, [32 + 4 * (step % 7) for step in range(500)])
"""
SHORT = """
train(torch.compile(model, backend="aot_eager"), [32] * 20)
"""
BREAKS = """
def look(x):
    for _ in range(12):
        x = torch.sin(x) + 0.1
    return x

if sys.argv[1] == "sick":
    look = torch._dynamo.disable(look)

class Broken(Net):
    def forward(self, x):
        x = torch.relu(self.first(x))
        x = look(x)  # HERE
        return self.last(x * 0.5)

model = Broken()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
train(torch.compile(model, backend="aot_eager"), [64] * 150)
"""
OPTIMIZER = """
fast = torch.compile(model, backend="aot_eager")
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

@torch.compile(backend="aot_eager")
def update():
    optimizer.step()

for _ in range(100):
    loss = fast(torch.randn(32, 16, 256)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    update()
print(loss.item())
"""
FAULT = """
import gc
(loop,) = [thing for thing in gc.get_objects() if type(thing).__name__ == "Events"]

def broken(*args, **kwargs):
    raise ValueError("a planted fault")

kept, type(loop).add_span = type(loop).add_span, broken
fast = torch.compile(model, backend="aot_eager")
fast(torch.randn(4, 16, 256))
type(loop).add_span = kept
print("compile" in loop.undo)
train(fast, [32] * 20)
"""


@pytest.fixture
def cold(tmp_path):
    """Compilers start with nothing on disk, and compile in the process itself."""
    return {
        **os.environ,
        "TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache"),
        "TORCHINDUCTOR_COMPILE_THREADS": "1",
    }


def diagnosed(watching, cold, body, *words):
    script = watching.folder / "train.py"
    script.write_text(HEAD + body)
    done = watching.run(script, *words, env=cold)
    assert done.returncode == 0, done.stderr
    return watching.diagnosis(), script


def line_of(script, mark):
    return next(i for i, line in enumerate(script.read_text().splitlines(), 1) if mark in line)


def serious(diagnosis):
    return [found for found in diagnosis["findings"] if found["severity"] != "info"]


def test_a_storm_of_recompilations(watching, cold):
    diagnosis, script = diagnosed(watching, cold, STORM)
    first = diagnosis["findings"][0]
    assert first["cause"] == "recompilation-storm"
    assert diagnosis["verdict"]["bound"] == "interruption"
    (place,) = first["where"]
    assert (place["file"], place["line"]) == (str(script), line_of(script, "# MODEL"))
    assert "size mismatch" in first["evidence"][0]["value"]
    assert diagnosis["attribution"]["unknown"] < 0.2
    assert "debug-mode-left-on" not in [found["cause"] for found in diagnosis["findings"]]


def test_changing_lengths_that_compile_once(watching, cold):
    diagnosis, _ = diagnosed(watching, cold, DYNAMIC)
    assert diagnosis["steps"]["detected_by"] == "optimizer"
    assert not serious(diagnosis)


def test_compiling_once_is_a_remark_beside_the_steady_steps(watching, cold):
    diagnosis, script = diagnosed(watching, cold, SHORT)
    causes = {found["cause"]: found for found in diagnosis["findings"]}
    remark = causes["compile-autotune-warmup"]
    assert (remark["severity"], remark["lost"]["high"]) == ("info", 0.0)
    assert remark["where"][0]["line"] == line_of(script, "# MODEL")
    assert any(note.startswith("slow start: ") for note in diagnosis["coverage"]["notes"])
    assert diagnosis["attribution"]["interruption"] < 0.5


def test_broken_graphs(watching, cold):
    diagnosis, script = diagnosed(watching, cold, BREAKS, "sick")
    first = diagnosis["findings"][0]
    assert first["cause"] == "graph-breaks"
    assert first["where"][0]["line"] == line_of(script, "# HERE")


def test_a_graph_in_one_piece(watching, cold):
    diagnosis, _ = diagnosed(watching, cold, BREAKS, "healthy")
    assert not serious(diagnosis)


def test_a_compiled_optimizer_still_ends_steps(watching, cold):
    diagnosis, _ = diagnosed(watching, cold, OPTIMIZER)
    assert 90 <= diagnosis["steps"]["count"] <= 100
    assert "graph-breaks" not in [found["cause"] for found in diagnosis["findings"]]


def test_a_fault_while_compiling_never_reaches_the_job(watching, cold):
    diagnosis, _ = diagnosed(watching, cold, FAULT)
    notes = [note for note in diagnosis["coverage"]["notes"] if "planted" in note]
    assert "compile" in {note.split("switched off: ")[1].split(":")[0] for note in notes}
    assert diagnosis["steps"]["count"] > 10
