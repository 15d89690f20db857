"""Prepare the deterministic part of a dataset once, and read it from a few large files.

SPEC names what makes the dataset: train.py:make_train_set (a function without arguments, or the
dataset itself) or package.module:name. Samples are made twice in fresh processes; what differs,
such as random augmentation, is still computed in training. Your files are not changed: the
necessary edit is printed. For several nodes or object stores, write the data with MosaicML
Streaming, LitData or WebDataset.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from whyidle.cli._options import add_option, add_quiet
from whyidle.errors import InputError, OutputError, UsageError

if TYPE_CHECKING:
    from whyidle.planning.preparation.survey import Forecast, Survey


def prepare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.usage = "whyidle prepare [OPTIONS] SPEC"
    parser.add_argument("spec", metavar="SPEC", nargs="?")
    add_option(parser, "--out", " (default: prepared)", type=Path, default=Path("prepared"))
    parser.add_argument(
        "--source",
        metavar="PATH",
        action="append",
        default=[],
        help="files or folders from which samples are made, if not detected; changes to them are "
        "then noticed",
    )
    parser.add_argument(
        "--shard", metavar="MB", type=float, default=64.0, help="size of each file (default: 64)"
    )
    parser.add_argument(
        "--workers", metavar="N", type=int, help="number of processes (default: all cores)"
    )
    parser.add_argument(
        "--python",
        metavar="PATH",
        default=sys.executable,
        help="Python with the packages of the dataset (default: this one)",
    )
    parser.add_argument(
        "--dry-run", action="store_true", help="report size and gain, and write nothing"
    )
    parser.add_argument(
        "--force",
        action="store_true",
        help="write even if reading a sample would be slower than making it",
    )
    add_quiet(parser)


def run(args: argparse.Namespace) -> int:
    """Survey, write and check."""
    from whyidle.cli._progress_line import Progress
    from whyidle.planning.preparation.shards import Preparation
    from whyidle.planning.preparation.survey import survey_dataset

    if args.spec is None or ":" not in args.spec:
        hint = "whyidle prepare train.py:make_train_set --out prepared"
        raise UsageError("Name the function that makes the dataset.", hint=hint)
    if not args.shard > 0 or (args.workers is not None and args.workers < 1):
        raise UsageError("--shard and --workers must be above 0.")
    survey = survey_dataset(args.python, args.spec, [str(Path(p).absolute()) for p in args.source])
    _print_survey(args, survey)
    if not (args.force or args.dry_run):
        _check_gain(survey)
    folder = args.out.absolute()
    made = Preparation(args.python, args.spec, survey, folder=folder, shard=round(args.shard * 1e6))
    if args.dry_run:
        made.check_room()
        return 0
    if not folder.exists():
        made.check_room()
    try:
        with made.open_folder():
            made.check_room()
            with Progress(quiet=args.quiet) as progress:
                made.write_shards(args.workers or os.cpu_count() or 1, progress.show_written)
            faster = made.finish_data()
    except OSError as error:
        why = f"{error.strerror or error}: {error.filename or folder}."
        hint = "Fix this and run the same command again: complete files are kept."
        raise OutputError("The data cannot be prepared.", why=why, hint=hint) from error
    if not args.quiet:
        _print_result(args, survey, faster)
    return 0


def _check_gain(survey: Survey) -> None:
    gain = survey.gain
    if gain.high < 1.0:
        raise InputError(
            "Reading prepared samples would be slower than making them: nothing was written.",
            why=f"A sample would be read {gain.value:.2g} ({gain.low:.2g} to {gain.high:.2g}) "
            "times as fast as it is made.",
            hint="--force writes them anyway.",
        )


def _print_survey(args: argparse.Namespace, survey: Survey) -> None:
    if args.quiet:
        return
    size, gain = survey.size, survey.gain
    lines = [f"{survey.samples:,} samples; {len(survey.indices)} made twice were identical"]
    if survey.rest:
        lines[0] += f" up to transform {survey.prefix} of {len(survey.transforms)}"
        lines.append(f"stays online: {', '.join(survey.rest)}")
    lines.append(
        f"predicted: {size.value / 1e6:,.3g} MB ({size.low / 1e6:,.3g} to {size.high / 1e6:,.3g}); "
        f"a sample {gain.value:.3g} times as fast ({gain.low:.3g} to {gain.high:.3g})"
    )
    if survey.outgrows_memory:
        rate = size.value / survey.samples / survey.whole_s / 1e6
        lines.append(
            f"larger than the free memory: each epoch reads it from the disk again, which pays "
            f"only above {rate:,.0f} MB/s per loader worker; LitData, MosaicML Streaming and "
            "WebDataset read in order"
        )
    if gain.high < 1.0 and (args.force or args.dry_run):
        lines.append("reading would be slower than making: not worth it")
    if not survey.sources:
        lines.append(
            "no source files were detected: name them with --source so that changes are noticed"
        )
    for line in lines:
        print(f"whyidle: {line}", file=sys.stderr)


def _print_result(args: argparse.Namespace, survey: Survey, faster: Forecast) -> None:
    place, _, name = args.spec.rpartition(":")
    folder = str(args.out.absolute())
    rest = ", ".join(survey.rest)
    online = f", transform=Compose([{rest}])" if rest else ""
    advice = " Keep the dataset as it is." if faster.value < 1.0 else ""
    print(
        f"\n  {survey.samples:,} samples in {args.out}, checked; a sample is read "
        f"{faster.value:.3g} times as fast as it is made ({faster.low:.3g} to "
        f"{faster.high:.3g} in turns; predicted {survey.gain.value:.3g}).{advice}\n\n"
        f"  Read them where {place} makes the dataset:\n\n"
        f"  - dataset = {name}()\n"
        f"  + import sys; sys.path.append({folder!r})\n"
        f"  + from whyidle_prepared import PreparedDataset\n"
        f"  + dataset = PreparedDataset({folder!r}{online})\n"
    )
