"""Calls that create the arguments of Hugging Face's trainers."""

from __future__ import annotations

import libcst as cst

from whyidle.patches._source_tree import SourceTree

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
