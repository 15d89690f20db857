"""``TrainingArguments(...)`` of Hugging Face."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import libcst as cst

from whyidle.model.knobs import Setting
from whyidle.model.patch import KnobChange, Rewrite, source_form
from whyidle.patches._keyword_argument import Keyword, current_value, matching_calls
from whyidle.patches._keyword_setter import KeywordSetter
from whyidle.patches._source_tree import NO_LITERAL, SourceTree, source_of

TRL = tuple(f"trl.{each}Config" for each in ("SFT", "DPO", "GRPO", "KTO", "ORPO", "CPO", "Reward"))
"""arguments of TRL's trainers, which extend those of transformers"""
ARGUMENTS = TRL + tuple(
    f"{module}.{prefix}TrainingArguments"
    for prefix, modules in {
        "": ("transformers", "transformers.training_args"),
        "Seq2Seq": ("transformers", "transformers.training_args_seq2seq"),
    }.items()
    for module in modules
)
PARSERS = (
    "transformers.HfArgumentParser",
    "transformers.hf_argparser.HfArgumentParser",
    "trl.TrlParser",
)


def argument_parsers(source: SourceTree) -> list[cst.Call]:
    """Parsers that create the trainer's arguments from the command's options."""
    known, parsers = set(ARGUMENTS), []
    for call in source.calls_of(PARSERS):
        parts = (*source.nodes_inside(cst.Name, call), *source.nodes_inside(cst.Attribute, call))
        if any(source.qualified_names(part) & known for part in parts):
            parsers.append(call)
    return parsers


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
}
"""knob -> the argument, and its value for a setting; None: it cannot express that"""
NEED_WORKERS = ("loader.persistent_workers", "loader.prefetch_factor")
EXCLUDES = {"bf16": "fp16"}


@source_form(*KEYWORDS)
def hugging_face(text: str, change: KnobChange) -> Rewrite:
    """The arguments of the trainer, where a program creates them itself."""
    if "transformers" not in text and "trl" not in text:
        return Rewrite(text)
    source = source_of(text)
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
