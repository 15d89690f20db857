"""``TrainingArguments(...)`` of Hugging Face, and how its models attend."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import libcst as cst

from whyidle.model.knobs import Setting
from whyidle.model.patch import Change, Rewrite, source_form
from whyidle.patches._keyword import Keyword, argument, current, meant
from whyidle.patches._origin import given
from whyidle.patches._setter import Edits, Setter
from whyidle.patches._source import NO_LITERAL, Source, source_of
from whyidle.patches._spread import spread
from whyidle.patches._trainers import ARGUMENTS, TRL, parsers
from whyidle.patches._training import method

WORKERS = Keyword("dataloader_num_workers", 0)
PLAIN = "adamw_torch"
Same = Callable[[Setting], "Setting | None"]


def _same(value: Setting) -> Setting:
    return value


KEYWORDS: dict[str, tuple[Keyword, Same]] = {
    "loader.workers": (WORKERS, _same),
    "loader.pin_memory": (Keyword("dataloader_pin_memory", True), _same),
    "loader.persistent_workers": (Keyword("dataloader_persistent_workers", False), _same),
    "loader.prefetch_factor": (Keyword("dataloader_prefetch_factor", None), _same),
    "autocast.dtype": (Keyword("bf16", False), lambda value: value == "bfloat16" or None),
    "matmul.precision": (Keyword("tf32", None), lambda value: value == "high" or None),
    "model.compile": (Keyword("torch_compile", False), _same),
    "optimizer.fused": (Keyword("optim", PLAIN), lambda value: f"{PLAIN}_fused" if value else None),
    "ddp.bucket_cap_mb": (Keyword("ddp_bucket_cap_mb", None), _same),
}
"""knob -> the argument, and what it is for a setting; None: it cannot say that"""
NEED_WORKERS = ("loader.persistent_workers", "loader.prefetch_factor")
EXCLUDES = {"bf16": "fp16"}
CHECKPOINTING = ("activation_checkpointing", "gradient_checkpointing")
"""the newer name and the older: transformers 5 reads the older only where the newer is not given"""


@source_form(*KEYWORDS, "model.attention", "model.checkpointing")
def hugging_face(text: str, change: Change) -> Rewrite:
    """The arguments of the trainer, where a program makes them itself."""
    if change.knob == "model.checkpointing":
        known = not change.value and any(word in text for word in (*CHECKPOINTING, "trl", "Hf"))
        return _checkpointing(source_of(text), change) if known else Rewrite(text)
    if "transformers" not in text and "trl" not in text:
        return Rewrite(text)
    source = source_of(text)
    if change.knob == "model.attention":
        return _attention(source, change)
    keyword, said = KEYWORDS[change.knob]
    value = said(change.value)
    if value is None:
        return Rewrite(text)
    same = type(value) is type(change.value)
    told = replace(change, value=value, was=change.was if same else None)
    setter = Setter(source, keyword, told)
    for call in parsers(source):
        setter.leave(call, f"reads it from the command: write `--{keyword.name} {value}` there")
    free = []
    for call in meant(source, source.calls(ARGUMENTS), keyword, told):
        other = EXCLUDES.get(keyword.name, "")
        if change.knob in NEED_WORKERS and current(source, call, WORKERS) in (0, NO_LITERAL):
            setter.leave(call, "may make its loaders without workers")
        elif other and current(source, call, Keyword(other, False)) is not False:
            setter.leave(call, f"may set {other}, which excludes {keyword.name}")
        elif keyword.name == "optim" and current(source, call, keyword) not in (PLAIN, value):
            setter.leave(call, f"names an optimizer other than {PLAIN}")
        else:
            free.append(call)
    return setter.set(free)


def _checkpointing(source: Source, change: Change) -> Rewrite:
    """Whatever turns it on: the argument by the name that a call passes, else the model's own
    method. A call that says nothing of it has turned nothing on."""
    edits = Edits()
    for name in CHECKPOINTING:
        calls = [call for call in source.calls(ARGUMENTS) if _says(source, call, name)]
        setter = Setter(source, Keyword(name, None), change, edits)
        setter.set(calls)
        for call in source.every(cst.Call):
            if method(call) == f"{name}_enable":
                edits.replace(call, f"{source.code(call.func).removesuffix('enable')}disable()")
            edits.done |= method(call) == f"{name}_disable"
        for call in parsers(source):
            if word := given(change.options, (f"--{name}",)):
                setter.leave(call, f"reads it from the command: change `{word}` there")
    for call in source.calls(TRL):
        if not any(_says(source, call, name) for name in CHECKPOINTING):
            setter.leave(call, "may turn it on without being told to")
    return edits.rewrite(source)


def _says(source: Source, call: cst.Call, name: str) -> bool:
    """Whether a call passes an argument, or may."""
    known = spread(source, call)
    return known is None or name in known.keys or argument(call, Keyword(name, None)) is not None


def _attention(source: Source, change: Change) -> Rewrite:
    """Models and configurations that are told the written-out form by name."""
    keyword = Keyword("attn_implementation", None)
    setter = Setter(source, keyword, change)
    for assigned in source.every(cst.Assign):
        names = [target.target for target in assigned.targets]
        last = names[0].attr.value if isinstance(names[0], cst.Attribute) else ""
        if last == f"_{keyword.name}":
            setter.change_value(assigned, assigned.value)
    return setter.set(
        [
            call
            for call in source.every(cst.Call)
            if current(source, call, keyword) in ("eager", change.value)
        ]
    )
