"""Fewer, larger micro-batches: both arguments of the trainer, or neither."""

import pytest
from patching import rewrite

START = "from transformers import HfArgumentParser, TrainingArguments\n"
KNOB = "loop.microbatch_times"
SIZE, STEPS = "per_device_train_batch_size", "gradient_accumulation_steps"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"{SIZE}=2, {STEPS}=8", f"{SIZE}=2 * 4, {STEPS}=2"),
        (f"{SIZE}=a.size, {STEPS}=a.steps", f"{SIZE}=a.size * 4, {STEPS}=a.steps // 4"),
        (f"{SIZE}=2, {STEPS}=n + 4", f"{SIZE}=2 * 4, {STEPS}=(n + 4) // 4"),
        (f"{STEPS}=4", f"{STEPS}=1, {SIZE}=8 * 4"),
    ],
)
def test_the_product_stays(before, after):
    found = rewrite(f"{START}x = TrainingArguments('o', {before})\n", KNOB, 4, 1)
    assert found.text == f"{START}x = TrainingArguments('o', {after})\n"
    assert (found.done, found.why) == (True, ())


@pytest.mark.parametrize(
    ("call", "why"),
    [
        (f"TrainingArguments({SIZE}=2)", "does not name both"),
        (f"TrainingArguments({SIZE}=2, {STEPS}=6)", f"has {STEPS}=6"),
        (f"TrainingArguments({SIZE}=2, {STEPS}=1)", f"has {STEPS}=1"),
        (f"TrainingArguments({SIZE}=2 * 4, {STEPS}=4)", "already"),
        (f"TrainingArguments({SIZE}=2 * 4, {STEPS}=1)", "already"),
        (f"TrainingArguments({STEPS}=8, **more)", "from elsewhere"),
        (f"TrainingArguments({SIZE}=2, {STEPS}=n // 4)", f"has {STEPS}=n // 4"),
        ("HfArgumentParser(TrainingArguments)", "from the command"),
    ],
)
def test_or_nothing_is_changed(call, why):
    text = f"{START}x = {call}\n"
    found = rewrite(text, KNOB, 4, 1)
    assert (found.text, found.done) == (text, False)
    assert len(found.why) == 1
    assert why in found.why[0]


def test_arguments_whose_default_size_is_not_known():
    text = f"from trl import SFTConfig\nx = SFTConfig({STEPS}=8)\n"
    assert "does not name both" in rewrite(text, KNOB, 4, 1).why[0]
