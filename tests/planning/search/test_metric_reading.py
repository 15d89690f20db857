from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from whyidle.errors import UsageError
from whyidle.planning.search.metric_reading import (
    MetricReader,
    compile_pattern,
    guess_direction,
)


def read(metric: str, tmp_path: Path, *parts: bytes, reported: str = "") -> list[tuple[int, float]]:
    output, other = tmp_path / "out", tmp_path / "reported"
    other.write_text(reported)
    reader = MetricReader(metric, output, other)
    found = []
    for part in parts:
        with output.open("ab") as file:
            file.write(part)
        found += reader.read_appended(1.0)
    reader.finish_files()
    found += reader.read_appended(1.0)
    return [(report.step, report.value) for report in found]


def test_lines_that_arrive_in_parts(tmp_path: Path):
    parts = (b"val_lo", b"ss: 0.5\nval_loss:", b" 1e-2\nval_loss: 3")
    assert read("val_loss: {}", tmp_path, *parts) == [(1, 0.5), (2, 0.01), (3, 3.0)]
    (tmp_path / "out").unlink()
    assert read("val_loss:{}", tmp_path, *parts) == [(1, 0.5), (2, 0.01), (3, 3.0)]


def test_the_step_may_be_named(tmp_path: Path):
    found = read("epoch {step} | loss {}", tmp_path, b"Epoch 10 | loss nan\nepoch 20 | loss -inf\n")
    assert [step for step, _ in found] == [10, 20]
    assert math.isnan(found[0][1])
    assert found[1][1] == -math.inf


def test_a_progress_bar_repeats_a_value_each_time_it_is_drawn(tmp_path: Path):
    drawn = b"50% loss=0.5\r60% loss=0.5\r\x1b[32m70% loss=0.4\x1b[0m\r\n", b"80% loss=0.4\n"
    assert read("loss={}", tmp_path, *drawn) == [(1, 0.5), (2, 0.4), (3, 0.4)]


def test_the_loss_is_not_the_validation_loss(tmp_path: Path):
    assert read("loss: {}", tmp_path, b"val_loss: 1 val/loss: 2 loss: 3\n") == [(1, 3.0)]


def test_a_name_is_read_from_lines_of_json_and_from_what_is_reported(tmp_path: Path):
    line = b'{"val": {"loss": 0.5}, "epoch": 3}\n{"val.loss": 0.4}\nval.loss 9\n{"val": {}}\n'
    assert read("val.loss", tmp_path, line) == [(3, 0.5), (2, 0.4)]
    told = json.dumps({"by": "tensorboard", "name": "val/loss", "value": 0.3, "step": 8}) + "\n"
    (tmp_path / "out").unlink()
    assert read("val/loss", tmp_path, b"", reported=told) == [(8, 0.3)]
    assert read("tensorboard:val/loss", tmp_path, b"", reported=told) == [(8, 0.3)]
    assert read("mlflow:val/loss", tmp_path, b"", reported=told) == []
    assert read("json:val/loss", tmp_path, b'{"val/loss": 1}\n', reported="") == [(1, 1.0)]


def test_a_pattern_has_one_number():
    for metric in ("loss {step}", "{} {}", "loss {x}"):
        with pytest.raises(UsageError, match=r"must contain \{\} exactly once"):
            compile_pattern(metric)


@pytest.mark.parametrize(
    ("metric", "direction"),
    [
        ("val_loss: {}", "minimize"),
        ("error {}", "minimize"),
        ("Acc@1 {}", "maximize"),
        ("val/accuracy", "maximize"),
        ("eval_f1", "maximize"),
        ("mean reward: {}", "maximize"),
        ("trace {}", "minimize"),
    ],
)
def test_direction_by_name(metric: str, direction: str):
    assert guess_direction(metric) == direction
