"""Trainers that make loader, autocast and the rest by themselves."""

import pytest
from patching import added, rewrite

HF = "from transformers import TrainingArguments, AutoModel\n"
PL = "import lightning as L\n"
AC = "from accelerate import Accelerator, DataLoaderConfiguration\n"
LOOP = """for x in loader:
    loss = model(x).sum()
    framework.backward(loss)
"""


@pytest.mark.parametrize(
    ("knob", "value", "said"),
    [
        ("loader.workers", 4, "dataloader_num_workers=4"),
        ("loader.pin_memory", False, "dataloader_pin_memory=False"),
        ("autocast.dtype", "bfloat16", "bf16=True"),
        ("matmul.precision", "high", "tf32=True"),
        ("model.compile", True, "torch_compile=True"),
        ("optimizer.fused", True, 'optim="adamw_torch_fused"'),
    ],
)
def test_training_arguments(knob, value, said):
    line = 'args = TrainingArguments("out", learning_rate=1e-4)'
    assert added(f"{HF}{line}\n", knob, value) == [f"-{line}", f"+{line[:-1]}, {said})"]


def test_an_optimizer_that_was_chosen_stays():
    text = f'{HF}args = TrainingArguments(optim="adafactor")\n'
    found = rewrite(text, "optimizer.fused", True, False)
    assert found.text == text
    assert found.why == ("line 2 names an optimizer other than adamw_torch",)
    plain = text.replace("adafactor", "adamw_torch")
    assert 'optim="adamw_torch_fused"' in rewrite(plain, "optimizer.fused", True, False).text


def test_checkpointing_of_which_nothing_is_said():
    text = f"{HF}args = TrainingArguments('o')\n"
    found = rewrite(text, "model.checkpointing", False, True)
    assert (found.text, found.done, found.why) == (text, False, ())
    found = rewrite(text.replace("'o'", "**more"), "model.checkpointing", False, True)
    assert not found.done


def test_persistent_workers_need_workers():
    line = "args = TrainingArguments()"
    found = rewrite(f"{HF}{line}\n", "loader.persistent_workers", True)
    assert found.why == ("line 2 may make its loaders without workers",)
    text = rewrite(f"{HF}{line}\n", "loader.workers", 4, 0).text
    assert rewrite(text, "loader.persistent_workers", True).text.endswith(
        "dataloader_num_workers=4, dataloader_persistent_workers=True)\n"
    )


@pytest.mark.parametrize("other", ["fp16=True", "fp16=options.half"])
def test_half_precision_of_another_kind_stays(other):
    found = rewrite(f"{HF}args = TrainingArguments({other})\n", "autocast.dtype", "bfloat16")
    assert not found.done
    assert len(found.why) == 1


@pytest.mark.parametrize("words", ["", "precision=32", 'precision="32-true"'])
def test_lightnings_precision(words):
    (line,) = added(f"{PL}t = L.Trainer({words})\n", "autocast.dtype", "bfloat16")[1:]
    assert line == '+t = L.Trainer(precision="bf16-mixed")'


@pytest.mark.parametrize("words", ['precision="16-mixed"', "precision=p", "**more"])
def test_a_precision_that_was_chosen_stays(words):
    found = rewrite(f"{PL}t = L.Trainer({words})\n", "autocast.dtype", "bfloat16")
    assert not found.done
    assert len(found.why) == 1


def test_lightnings_switches():
    text = f"{PL}t = L.Trainer(detect_anomaly=True)\n"
    assert "detect_anomaly=False" in rewrite(text, "autograd.anomaly_mode", False, True).text
    assert not rewrite(f"{PL}t = L.Trainer()\n", "autograd.anomaly_mode", False, True).done


@pytest.mark.parametrize(
    ("head", "made", "said"),
    [
        (AC, "Accelerator()", 'mixed_precision="bf16"'),
        (AC, "Accelerator(mixed_precision='no')", "mixed_precision='bf16'"),
        (PL, "L.Fabric()", 'precision="bf16-mixed"'),
        (PL, "L.Fabric(precision='32-true')", "precision='bf16-mixed'"),
    ],
)
def test_what_a_loop_of_ones_own_is_trained_by(head, made, said):
    """Its ``backward`` takes the loss, and its precision holds for the forward pass."""
    text = f"import torch\n{head}framework = {made}\n{LOOP}"
    assert added(text, "autocast.dtype", "bfloat16") == [
        f"-framework = {made}", f"+framework = {made.partition('(')[0]}({said})"
    ]  # fmt: skip
    assert rewrite(text, "autocast.dtype", "bfloat16").why == ()


@pytest.mark.parametrize(
    ("head", "made"),
    [(AC, "Accelerator(mixed_precision='fp16')"), (PL, "L.Fabric(precision='64-true')")],
)
def test_whose_precision_was_chosen(head, made):
    found = rewrite(f"{head}framework = {made}\n{LOOP}", "autocast.dtype", "bfloat16")
    assert not found.done
    assert found.why == ("line 2 sets another precision",)


def test_arguments_of_trl():
    line = "args = SFTConfig(packing=True)"
    text = f"from trl import SFTConfig\n{line}\n"
    assert added(text, "loader.workers", 4) == [
        f"-{line}", f"+{line[:-1]}, dataloader_num_workers=4)"
    ]  # fmt: skip


PARSED = """from transformers import HfArgumentParser, TrainingArguments
parser = HfArgumentParser((Own, TrainingArguments))
"""


@pytest.mark.parametrize(
    ("knob", "value", "word"),
    [("autocast.dtype", "bfloat16", "--bf16 True"), ("loader.workers", 4, "num_workers 4")],
)
def test_arguments_that_the_command_gives(knob, value, word):
    found = rewrite(PARSED, knob, value)
    assert not found.done
    assert [word in why for why in found.why] == [True]
    dotted = "import transformers as t\nt.HfArgumentParser(t.TrainingArguments)\n"
    assert len(rewrite(dotted, knob, value).why) == 1
    assert rewrite(PARSED.replace("TrainingArguments", "Other"), knob, value).why == ()
