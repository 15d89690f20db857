"""The comparison of frameworks refuses scripts that do not compute the same."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "examples" / "frameworks"
SCRIPT = """
import sys
import numpy
losses = numpy.linspace(2.0, 1.0, int(sys.argv[1])) * float(sys.argv[2])
numpy.save(sys.argv[sys.argv.index("--losses") + 1], losses)
"""


@pytest.fixture
def compare(monkeypatch):
    monkeypatch.syspath_prepend(FOLDER)
    yield importlib.import_module("compare")
    for name in ("compare", "problem"):
        sys.modules.pop(name, None)


@pytest.fixture
def commands(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)

    def of(**arguments):
        return {
            name: [sys.executable, str(script), str(steps), str(factor)]
            for name, (steps, factor) in arguments.items()
        }

    return of


def test_equal_losses_pass(compare, commands, tmp_path, capsys):
    compare.check_losses(commands(torch=(20, 1.0), jax=(20, 1.00001)), tmp_path)
    assert "jax: loss 2.000020 to 1.000010, differs by 1.0e-05" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ((20, 1.01), "losses differ.*: torch 1.[0-9]*, jax 1.[0-9]*; allowed"),
        ((20, float("nan")), "losses differ"),
        ((19, 1.0), "jax took 19 steps, torch 20"),
    ],
)
def test_other_losses_are_refused(compare, commands, tmp_path, other, message):
    with pytest.raises(SystemExit, match=message):
        compare.check_losses(commands(torch=(20, 1.0), jax=other), tmp_path)


def test_a_missing_framework_is_skipped_with_a_reason(compare, capsys):
    assert compare.is_installed("json", sys.executable)
    assert not compare.is_installed("json-nowhere", sys.executable)
    assert "skipped json-nowhere" in capsys.readouterr().out


def test_scripts_get_the_same_problem(compare, tmp_path):
    problem = importlib.import_module("problem")
    for name in ("a.npz", "b.npz"):
        problem.write_problem(tmp_path / name, steps=2)
    images, classes, layers = problem.read_problem(tmp_path / "a.npz", 2)
    again, _, _ = problem.read_problem(tmp_path / "b.npz", 2)
    assert (images == again).all()
    assert len(list(problem.slice_batches(images, classes))) == 2
    assert [weight.shape for weight, _ in layers] == [(784, 512), (512, 512), (512, 10)]
