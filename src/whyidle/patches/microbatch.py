"""Fewer and larger micro-batches where Hugging Face's ``Trainer`` makes them."""

from __future__ import annotations

import libcst as cst

from whyidle.model.patch import Change, Rewrite, source_form
from whyidle.patches._factor import has, multiply, number
from whyidle.patches._keyword import Keyword, argument
from whyidle.patches._setter import Edits
from whyidle.patches._source import NO_LITERAL, Source, source_of
from whyidle.patches._trainers import ARGUMENTS, TRL, parsers

SIZE = Keyword("per_device_train_batch_size", 8)
STEPS = Keyword("gradient_accumulation_steps", 1)


@source_form("loop.microbatch_times")
def microbatch(text: str, change: Change) -> Rewrite:
    """Both arguments of the trainer, or neither: one alone would change how many samples a step
    has."""
    known = "transformers" in text or "trl" in text
    if not known or not isinstance(change.value, int | float):
        return Rewrite(text)
    source, edits, factor = source_of(text), Edits(), number(change.value)
    for call in parsers(source):
        line = source.line(call)
        edits.why.append(f"line {line} reads {SIZE.name} and {STEPS.name} from the command")
    for call in source.calls(ARGUMENTS):
        _join(source, edits, call, factor)
    return edits.rewrite(source)


def _join(source: Source, edits: Edits, call: cst.Call, factor: str) -> None:
    line, steps = source.line(call), argument(call, STEPS)
    if steps is None or (source.names(call.func) & set(TRL) and argument(call, SIZE) is None):
        edits.why.append(f"line {line} does not name both {SIZE.name} and {STEPS.name}")
        return
    size, fewer = argument(call, SIZE), _divided(source, steps, factor)
    if not fewer and not (size is not None and has(source, size, factor)):
        edits.why.append(f"line {line} has {STEPS.name}={source.code(steps)}")
        return
    left = len(edits.why)
    multiply(source, edits, call, SIZE, factor)
    if len(edits.why) == left:
        edits.replace(steps, fewer)


def _divided(source: Source, steps: cst.BaseExpression, factor: str) -> str:
    """How many are left, as an expression; empty where the number is none that the factor divides,
    or has been divided already."""
    value, code = source.literal(steps), source.code(steps)
    if type(value) is int and factor.isdigit():
        return str(value // int(factor)) if value and value % int(factor) == 0 else ""
    if value is not NO_LITERAL or code.endswith(f" // {factor}"):
        return ""
    return f"{code if isinstance(steps, cst.Name | cst.Attribute) else f'({code})'} // {factor}"
