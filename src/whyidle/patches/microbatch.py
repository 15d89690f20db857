"""Fewer and larger micro-batches where Hugging Face's ``Trainer`` makes them."""

from __future__ import annotations

import libcst as cst

from whyidle.model.patch import KnobChange, Rewrite, source_form
from whyidle.patches._keyword_argument import Keyword, argument_value
from whyidle.patches._keyword_setter import FileEdits
from whyidle.patches._multiplication import format_factor, is_multiplied, multiply_argument
from whyidle.patches._source_tree import NO_LITERAL, SourceTree, source_of
from whyidle.patches._trainer_arguments import ARGUMENTS, TRL, argument_parsers

SIZE = Keyword("per_device_train_batch_size", 8)
STEPS = Keyword("gradient_accumulation_steps", 1)


@source_form("loop.microbatch_times")
def microbatch(text: str, change: KnobChange) -> Rewrite:
    """Both arguments of the trainer, or neither: one alone would change how many samples a step
    has."""
    known = "transformers" in text or "trl" in text
    if not known or not isinstance(change.value, int | float):
        return Rewrite(text)
    source, edits, factor = source_of(text), FileEdits(), format_factor(change.value)
    for call in argument_parsers(source):
        line = source.line_of(call)
        edits.why.append(f"line {line} reads {SIZE.name} and {STEPS.name} from the command")
    for call in source.calls_of(ARGUMENTS):
        _enlarge_microbatches(source, edits, call, factor)
    return edits.rewrite_file(source)


def _enlarge_microbatches(
    source: SourceTree, edits: FileEdits, call: cst.Call, factor: str
) -> None:
    line, steps = source.line_of(call), argument_value(call, STEPS)
    if steps is None or (
        source.qualified_names(call.func) & set(TRL) and argument_value(call, SIZE) is None
    ):
        edits.why.append(f"line {line} does not name both {SIZE.name} and {STEPS.name}")
        return
    size, fewer = argument_value(call, SIZE), _divided_steps(source, steps, factor)
    if not fewer and not (size is not None and is_multiplied(source, size, factor)):
        edits.why.append(f"line {line} has {STEPS.name}={source.code_of(steps)}")
        return
    left = len(edits.why)
    multiply_argument(source, edits, call, SIZE, factor)
    if len(edits.why) == left:
        edits.replace_expression(steps, fewer)


def _divided_steps(source: SourceTree, steps: cst.BaseExpression, factor: str) -> str:
    """How many are left, as an expression; empty where the number is none that the factor divides,
    or has been divided already."""
    value, code = source.literal_value(steps), source.code_of(steps)
    if type(value) is int and factor.isdigit():
        return str(value // int(factor)) if value and value % int(factor) == 0 else ""
    if value is not NO_LITERAL or code.endswith(f" // {factor}"):
        return ""
    return f"{code if isinstance(steps, cst.Name | cst.Attribute) else f'({code})'} // {factor}"
