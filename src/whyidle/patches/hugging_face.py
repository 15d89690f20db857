"""``TrainingArguments(...)`` of Hugging Face, and the attention of its models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import libcst as cst

from whyidle.model.knobs import Setting
from whyidle.model.patch import KnobChange, Rewrite, source_form
from whyidle.patches._keyword_argument import Keyword, argument_value, current_value, matching_calls
from whyidle.patches._keyword_dicts import double_star_values
from whyidle.patches._keyword_setter import FileEdits, KeywordSetter
from whyidle.patches._source_tree import NO_LITERAL, SourceTree, source_of
from whyidle.patches._trainer_arguments import ARGUMENTS, TRL, argument_parsers
from whyidle.patches._training_loops import called_method
from whyidle.patches._value_origin import given_option

WORKERS = Keyword("dataloader_num_workers", 0)
PLAIN = "adamw_torch"
Same = Callable[[Setting], "Setting | None"]


def _same_value(value: Setting) -> Setting:
    return value


KEYWORDS: dict[str, tuple[Keyword, Same]] = {
    "loader.workers": (WORKERS, _same_value),
    "loader.pin_memory": (Keyword("dataloader_pin_memory", True), _same_value),
    "loader.persistent_workers": (Keyword("dataloader_persistent_workers", False), _same_value),
    "loader.prefetch_factor": (Keyword("dataloader_prefetch_factor", None), _same_value),
    "autocast.dtype": (Keyword("bf16", False), lambda value: value == "bfloat16" or None),
    "matmul.precision": (Keyword("tf32", None), lambda value: value == "high" or None),
    "model.compile": (Keyword("torch_compile", False), _same_value),
    "optimizer.fused": (Keyword("optim", PLAIN), lambda value: f"{PLAIN}_fused" if value else None),
    "ddp.bucket_cap_mb": (Keyword("ddp_bucket_cap_mb", None), _same_value),
}
"""knob -> the argument, and its value for a setting; None: it cannot express that"""
NEED_WORKERS = ("loader.persistent_workers", "loader.prefetch_factor")
EXCLUDES = {"bf16": "fp16"}
CHECKPOINTING = ("activation_checkpointing", "gradient_checkpointing")
"""the newer name and the older: transformers 5 reads the older only without the newer"""


@source_form(*KEYWORDS, "model.attention", "model.checkpointing")
def hugging_face(text: str, change: KnobChange) -> Rewrite:
    """The arguments of the trainer, where a program creates them itself."""
    if change.knob == "model.checkpointing":
        known = not change.value and any(word in text for word in (*CHECKPOINTING, "trl", "Hf"))
        return _set_checkpointing(source_of(text), change) if known else Rewrite(text)
    if "transformers" not in text and "trl" not in text:
        return Rewrite(text)
    source = source_of(text)
    if change.knob == "model.attention":
        return _set_attention(source, change)
    keyword, convert = KEYWORDS[change.knob]
    value = convert(change.value)
    if value is None:
        return Rewrite(text)
    same = type(value) is type(change.value)
    change = replace(change, value=value, was=change.was if same else None)
    setter = KeywordSetter(source, keyword, change)
    for call in argument_parsers(source):
        setter.leave_call(call, f"reads it from the command: add `--{keyword.name} {value}` there")
    free = []
    for call in matching_calls(source, source.calls_of(ARGUMENTS), keyword, change):
        other = EXCLUDES.get(keyword.name, "")
        if change.knob in NEED_WORKERS and current_value(source, call, WORKERS) in (0, NO_LITERAL):
            setter.leave_call(call, "may make its loaders without workers")
        elif other and current_value(source, call, Keyword(other, False)) is not False:
            setter.leave_call(call, f"may set {other}, which excludes {keyword.name}")
        elif keyword.name == "optim" and current_value(source, call, keyword) not in (PLAIN, value):
            setter.leave_call(call, f"names an optimizer other than {PLAIN}")
        else:
            free.append(call)
    return setter.set_keyword(free)


def _set_checkpointing(source: SourceTree, change: KnobChange) -> Rewrite:
    """Change the argument by the name that a call passes, or the model's method. A call without the
    argument has not turned it on."""
    edits = FileEdits()
    for name in CHECKPOINTING:
        setter = KeywordSetter(source, Keyword(name, None), change, edits)
        passing = [c for c in source.calls_of(ARGUMENTS) if _passes_argument(source, c, name)]
        setter.set_keyword(passing)
        for call in source.all_nodes(cst.Call):
            if called_method(call) == f"{name}_enable":
                edits.replace_expression(
                    call, f"{source.code_of(call.func).removesuffix('enable')}disable()"
                )
            edits.done |= called_method(call) == f"{name}_disable"
        for call in argument_parsers(source):
            if word := given_option(change.options, (f"--{name}",)):
                setter.leave_call(call, f"reads it from the command: change `{word}` there")
    for call in source.calls_of(TRL):
        if not any(_passes_argument(source, call, name) for name in CHECKPOINTING):
            setter.leave_call(call, "may turn it on by default")
    return edits.rewrite_file(source)


def _passes_argument(source: SourceTree, call: cst.Call, name: str) -> bool:
    known = double_star_values(source, call)
    passed = argument_value(call, Keyword(name, None)) is not None
    return passed or known is None or name in known.keys


def _set_attention(source: SourceTree, change: KnobChange) -> Rewrite:
    keyword = Keyword("attn_implementation", None)
    setter = KeywordSetter(source, keyword, change)
    for assigned in source.all_nodes(cst.Assign):
        names = [target.target for target in assigned.targets]
        last = names[0].attr.value if isinstance(names[0], cst.Attribute) else ""
        if last == f"_{keyword.name}":
            setter.change_value(assigned, assigned.value)
    values = ("eager", change.value)
    calls = source.all_nodes(cst.Call)
    return setter.set_keyword([c for c in calls if current_value(source, c, keyword) in values])
