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
    last_lines,
    suggest_patterns,
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


@pytest.mark.parametrize(
    ("name", "output", "found"),
    [
        (
            "eval_loss",
            b"\r 50%|  | 2/5 [00:00]\x1b[A{'eval_loss': '0.69', 'epoch': '1'}\n"
            b"{'eval_loss': nan, 'epoch': 2.0}\n{'my_eval_loss': 1}\n{'eval_loss': 0.5914}\n",
            [0.69, math.nan, 0.5914],
        ),
        (
            "val_loss",
            b"\r\x1b[1m3/7\x1b[0m 0s - loss: 2.11\x08\x08\r\x1b[1m7/7\x1b[0m 0s - "
            b"loss: 1.63 - val_loss: 0.91\n",
            [0.91],
        ),
        (
            "val_loss",
            b"Epoch 0: 8/8 [71it/s, val_loss=2.73]\rEpoch 0: 8/8 [71it/s, val_loss=2.73]\r"
            b"Epoch 1: 8/8 [71it/s, val_loss=2.50]\n",
            [2.73, 2.5],
        ),
        ("loss", b"train/loss: 1, loss - 2, losses: 3, loss 4\n", []),
    ],
)
def test_a_name_is_read_from_what_frameworks_print(
    tmp_path: Path, name: str, output: bytes, found: list[float]
):
    values = [value for _, value in read(name, tmp_path, output)]
    assert values == pytest.approx(found, nan_ok=True)
    (tmp_path / "out").unlink()
    assert read(f"csv:{name}", tmp_path, output) == []


def test_what_is_reported_goes_before_what_is_printed(tmp_path: Path):
    told = json.dumps({"by": "csv", "name": "val_loss", "value": 0.3125, "step": 8}) + "\n"
    assert read("val_loss", tmp_path, b"val_loss: 0.31\n", reported=told) == [(8, 0.3125)]


def test_a_pattern_has_one_number():
    for metric in ("loss {step}", "{} {}", "loss {x}"):
        with pytest.raises(UsageError, match=r"must contain \{\} exactly once"):
            compile_pattern(metric)


def test_numbers_in_the_output_are_suggested(tmp_path: Path):
    (tmp_path / "out").write_text("a\nepoch 3: train loss: 0.51, val_acc=0.9\n\nsaved m.pt\n")
    lines = last_lines(tmp_path / "out")
    assert lines == ["a", "epoch 3: train loss: 0.51, val_acc=0.9", "saved m.pt"]
    assert suggest_patterns(lines) == ["epoch {}", "loss: {}", "val_acc={}"]
    assert suggest_patterns(["{'eval_loss': '0.69', 'x': 'no'}"]) == ["eval_loss"]


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
