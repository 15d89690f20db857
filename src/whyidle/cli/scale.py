"""Predict how a training command scales to other numbers of ranks.

    whyidle scale --to 8,64 python train.py             from one rank, for the usual links
    whyidle scale --to 8 --within 300GB/s,5us python train.py
    whyidle scale --to 4,8 torchrun --nproc-per-node 2 train.py
    whyidle scale --to 16,64 --per-node 8 --between 25GB/s,20us --run last

The command runs for 80 steps, with a hook on each parameter that notes when its gradient is ready,
and is then interrupted as with Ctrl-C. With several ranks on one host the link between them is
measured; a link that is neither measured nor given is assumed as NVLink or PCIe, and between nodes
as 200 or 25 Gbit/s. The report predicts the step time with its interval, the efficiency, the first
bottleneck, and what nearly linear scaling would need. The batch of each rank stays the same.
"""

from __future__ import annotations

import argparse
import re
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from whyidle.cli import _output
from whyidle.cli import run as run_verb
from whyidle.cli._next_steps import store_option
from whyidle.cli._options import add_option, add_outputs, add_store, parse_count, store_of
from whyidle.errors import InputError, UsageError
from whyidle.model.node_lists import MOST_RANKS
from whyidle.version import __version__

if TYPE_CHECKING:
    from whyidle.model.documents.rank_scaling import Link, RankScaling
    from whyidle.store.entry import Entry

STEPS = 80
"""steps of the command: enough for those that are left out and those that are measured"""
_LINK = re.compile(
    r"(?P<speed>[\d.]+)(?P<unit>[kMGT])(?P<kind>B|bit)/s(,(?P<latency>[\d.]+)(?P<time>us|ms|s))?"
)
_SCALE = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "us": 1e-6, "ms": 1e-3, "s": 1.0}


def prepare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.usage = "whyidle scale --to RANKS [OPTIONS] [--] COMMAND..."
    parser.add_argument(
        "--to",
        metavar="RANKS",
        required=True,
        type=_parse_ranks,
        help="numbers of ranks to predict, separated by commas",
    )
    parser.add_argument(
        "--per-node",
        metavar="N",
        type=parse_count,
        help="ranks on each node (default: the number of GPUs of this machine; without GPUs, all "
        "on one node)",
    )
    form = "as bandwidth and latency of a message, such as 25GB/s,20us or 200Gbit/s"
    parser.add_argument(
        "--within",
        metavar="LINK",
        type=_parse_link,
        help=f"the link between the GPUs of a node, {form} (default: measured if it can be)",
    )
    parser.add_argument(
        "--between", metavar="LINK", type=_parse_link, help=f"the network between nodes, {form}"
    )
    add_option(parser, "--stop-after", f" (default: {STEPS})", type=parse_count, default=STEPS)
    parser.add_argument(
        "--run",
        metavar="RUN",
        dest="stored",
        help="predict from a stored run of whyidle scale, without running the command",
    )
    add_outputs(parser, ("--json", "--html"), "")
    add_store(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def _parse_ranks(text: str) -> list[int]:
    ranks = {parse_count(part) for part in text.split(",")}
    if max(ranks) > MOST_RANKS:
        raise argparse.ArgumentTypeError(f"at most {MOST_RANKS} ranks, not {max(ranks)}")
    return sorted(ranks)


def _list_ranks(ranks: list[int]) -> str:
    return ",".join(str(number) for number in ranks)


def _parse_link(text: str) -> Link:
    from whyidle.model.documents.rank_scaling import Link
    from whyidle.planning.rank_scaling import GIVEN_SPREAD

    found = _LINK.fullmatch(text)
    try:
        speed = float(found["speed"]) * _SCALE[found["unit"]] if found else 0.0
        latency = (
            float(found["latency"]) * _SCALE[found["time"]] if found and found["time"] else 0.0
        )
    except ValueError:
        speed = 0.0
    if found is None or speed <= 0.0:
        raise argparse.ArgumentTypeError(f"must be like 25GB/s,20us or 200Gbit/s, not {text!r}")
    speed /= 8.0 if found["kind"] == "bit" else 1.0
    return Link(latency_s=latency, bytes_per_s=speed, spread=GIVEN_SPREAD, source="given")


def run(args: argparse.Namespace) -> int:
    """Run the command, or find its run, and show the predictions."""
    from whyidle.planning.rank_scaling import Question, predict_scaling
    from whyidle.record.recording_diagnosis import recording_at

    command = args.command[1:] if args.command[:1] == ["--"] else args.command
    if bool(command) == bool(args.stored):
        raise UsageError(
            "Give either a command or --run RUN.", hint="whyidle scale --to 2,4,8 python train.py"
        )
    _output.check_outputs(args)
    entry = store_of(args).find_run(args.stored) if args.stored else _run_command(args, command)
    recording = recording_at(entry.path)
    if recording is None:
        raise InputError(
            f"The run {entry.id} holds no recording.", hint="whyidle scale --to 2,4 COMMAND"
        )
    asked = Question(args.to, args.per_node, args.within, args.between)
    _write_outputs(args, predict_scaling(recording, entry.id, asked))
    return 0


def _run_command(args: argparse.Namespace, command: list[str]) -> Entry:
    """Run and store the command with the look of ranks; return its run.

    Raises:
        InputError: the command could not be stored or has failed before it was measured.
    """
    from whyidle.planning.rank_scaling import LOOK

    script = next((word for word in command if word.endswith(".py")), None)
    if script is not None and not Path(script).exists():
        raise InputError(
            f"The script {script} does not exist.",
            hint=f"whyidle scale --to {_list_ranks(args.to)} python train.py",
        )
    store = store_of(args)
    known = {entry.id for entry in store.list_runs()}
    parser = argparse.ArgumentParser(allow_abbrev=False)
    run_verb.prepare(parser)
    options = ["--quiet", "--stop-after", str(args.stop_after), "--store", str(store.root)]
    note = f"running the command for {args.stop_after} steps, then interrupting it as Ctrl-C does"
    _output.print_note(args, note)
    status = run_verb.run(parser.parse_args([*options, "--look", LOOK, "--", *command]))
    new = [entry for entry in store.list_runs() if entry.id not in known]
    if not new:
        raise InputError(
            "The command was not recorded.",
            why=f"It ended with status {status} and left no run in {store.root}.",
        )
    return new[-1]


def _write_outputs(args: argparse.Namespace, scaling: RankScaling) -> None:
    from whyidle.reports._html.sections import render_page
    from whyidle.reports._rank_scaling import scaling_parts, summarize_scaling

    parts, about = scaling_parts(scaling), shlex.join(scaling.command)
    if not _output.write_documents(
        args,
        json=lambda: scaling,
        html=lambda: render_page(summarize_scaling(scaling), about, parts, __version__),
    ):
        return
    option = store_option(Path(args.store) if args.store else None)
    asked = f"--to {_list_ranks(args.to)}"
    asked += f" --per-node {args.per_node}" if args.per_node else ""
    for name, link in (("within", args.within), ("between", args.between)):
        if link is not None:
            asked += f" --{name} {link.bytes_per_s / 1e9:g}GB/s,{link.latency_s * 1e6:g}us"
    steps = [
        (f"whyidle scale {asked} --run {scaling.run}{option} --html scale.html", "as a page"),
        (f"whyidle report {scaling.run}{option}", "where the time goes now"),
    ]
    _output.print_parts(parts, steps)
