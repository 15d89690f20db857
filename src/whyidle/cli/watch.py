"""Show what this machine's GPUs do, whose jobs hold them, and why they wait.

    whyidle watch                            a table, updated every two seconds
    whyidle watch --once                     one table, after a second
    whyidle watch --once --json              the same as a document, whyidle/watch/1
    whyidle watch --once --fail-on-state idle-held    exit with status 3 if a GPU is held and unused
    whyidle watch --json --interval 10       one line of JSON every ten seconds

For a job under whyidle run, watch shows the proven cause and its place; for any other job, the
likely cause and what would prove it. No job is stopped, traced or slowed down.

GPUs are read through NVML (NVIDIA); those of other vendors are not listed.
"""

from __future__ import annotations

import argparse
import getpass
import os
import pwd
import sys
import time
from contextlib import ExitStack, closing, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from whyidle.cli import _output
from whyidle.cli._options import (
    STDOUT,
    add_option,
    add_prometheus,
    add_store,
    parse_seconds,
    parse_states,
)
from whyidle.errors import GateError, InputError, OutputError, UsageError

if TYPE_CHECKING:
    from whyidle.cli._watch_screen import Screen
    from whyidle.machine.alerts.alert_watch import AlertWatch
    from whyidle.machine.alerts.rule_file import AlertSettings
    from whyidle.machine.watch.machine_watch import MachineWatch
    from whyidle.machine.watch.publisher_queue import Publishing
    from whyidle.model.documents.watch_document import WatchedMachine
    from whyidle.model.live.alert import Route

EVERY_S = 2.0
BETWEEN_S = 1.0
"""counters need two looks; `--once` takes them this far apart"""
LEAST_S, MOST_S = 0.2, 3600.0
FAILING = ("idle-held", "idle-reserved", "starved", "stalled", "throttled", "lost")


def prepare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--once", action="store_true", help="print one table and exit")
    detail = ", the default; one document, or with --interval one per line"
    add_option(parser, "--json", detail, nargs="?", const=STDOUT)
    detail = f" (default: {EVERY_S:g}); --once takes two readings"
    add_option(parser, "--interval", detail, type=_parse_interval)
    add_option(parser, "--user", "; `me` is you")
    parser.add_argument(
        "--only",
        metavar="GPUS",
        type=lambda text: text.split(","),
        help="only these GPUs: numbers as in the table or UUID prefixes, separated by commas",
    )
    parser.add_argument(
        "--fail-on-state",
        metavar="STATES",
        type=partial(parse_states, known=FAILING),
        help=f"exit with status 3 if a GPU or job is in one of these states: {', '.join(FAILING)}",
    )
    add_prometheus(parser)
    add_option(parser, "--alerts", " (default: the shipped rules)", nargs="?", const="")
    add_store(parser)


def _parse_interval(text: str) -> float:
    return parse_seconds(text, LEAST_S, MOST_S)


def run(args: argparse.Namespace) -> int:
    """Look once, or until the user ends it."""
    from whyidle.machine.watch.machine_watch import MachineWatch

    if args.once and args.alerts is not None:
        raise UsageError(
            "--alerts cannot be combined with --once.",
            why="Rules need a history of readings, some of them an hour long.",
            hint="whyidle watch --alerts, or: whyidle watch --once --fail-on-state STATES",
        )
    with ExitStack() as running:
        watch = running.enter_context(closing(MachineWatch(lasting=not args.once)))
        publishing = _open_publishing(args, running)
        watch.look()
        if args.once:
            time.sleep(args.interval or BETWEEN_S)
            machine = select_rows(watch.look(), args.user, args.only)
            publishing.publish(machine)
            _print_once(args, machine)
            _check_gate(args, machine)
            return 0
        _keep_looking(args, watch, publishing, running)
    return 0


def _keep_looking(
    args: argparse.Namespace, watch: MachineWatch, publishing: Publishing, running: ExitStack
) -> None:
    settings = _read_alerts(args)
    screen = None if args.json else _open_screen(running)
    alerts = _open_alerts(args, settings, screen, running)
    machine: WatchedMachine | None = None

    def draw() -> None:
        if machine is not None:
            _draw(screen, machine)

    def wait(seconds: float) -> bool:
        if screen is not None:
            return screen.wait_for_end(seconds, machine, draw)
        time.sleep(seconds)
        return False

    seconds = args.interval or EVERY_S
    with suppress(KeyboardInterrupt):
        while not wait(seconds if machine else min(seconds, BETWEEN_S)):
            machine = select_rows(watch.look(), args.user, args.only)
            metrics = publishing.publish(machine)
            if alerts is not None:
                alerts.add_look(machine, metrics)
            if args.json:
                _write_line(args, machine)
            else:
                draw()
            _check_gate(args, machine)


def _open_publishing(args: argparse.Namespace, running: ExitStack) -> Publishing:
    from whyidle.machine.watch.publisher_queue import Publishing
    from whyidle.model.live.publisher import Destination

    publishing = Publishing(lambda text: print(f"whyidle: {text}", file=sys.stderr))
    running.callback(publishing.close)
    if args.prometheus is not None:
        publishing.open("prometheus", Destination(where=args.prometheus, environ=os.environ))
    return publishing


def _read_alerts(args: argparse.Namespace) -> AlertSettings | None:
    if args.alerts is None:
        return None
    from whyidle.machine.alerts.rule_file import AlertSettings, read_settings

    return read_settings(Path(args.alerts)) if args.alerts else AlertSettings()


def _open_alerts(
    args: argparse.Namespace,
    settings: AlertSettings | None,
    screen: Screen | None,
    running: ExitStack,
) -> AlertWatch | None:
    if settings is None:
        return None
    from whyidle import catalog
    from whyidle.machine.alerts.alert_watch import AlertWatch
    from whyidle.machine.watch.alert_routes import open_routes

    on_stdout: Route | None = None
    if screen is not None:
        on_stdout = screen.notices
    elif args.json == STDOUT:
        on_stdout = catalog.plugin_module("alerts.routes", "stdout").open({"format": "json"})
    routes = open_routes(settings.route or [{"kind": "stdout"}], on_stdout)
    alerts = AlertWatch(settings, routes)
    return running.enter_context(closing(alerts))


def select_rows(
    machine: WatchedMachine, user: str | None, only: list[str] | None
) -> WatchedMachine:
    """The GPUs and jobs that were asked for.

    Raises:
        UsageError: ``only`` names a GPU that does not exist, or ``user`` nobody.
    """
    import msgspec

    gpus, jobs = machine.gpus, machine.jobs
    if only is not None:
        for name in only:
            if not any(_is_named(gpu.gpu, gpu.uuid, name) for gpu in gpus):
                known = ", ".join(gpu.gpu for gpu in gpus) or "no GPU"
                raise UsageError(f"There is no GPU {name!r}.", why=f"This machine has {known}.")
        gpus = [g for g in gpus if any(_is_named(g.gpu, g.uuid, name) for name in only)]
        shown = {gpu.uuid or gpu.gpu for gpu in gpus}
        jobs = [job for job in jobs if shown & set(job.gpus)]
    if user is not None:
        name = getpass.getuser() if user == "me" else user
        jobs = [job for job in jobs if job.user == name]
        if not jobs:
            _check_user(name, machine)
        keys = {job.key for job in jobs}
        gpus = [gpu for gpu in gpus if keys & set(gpu.jobs)]
    return msgspec.structs.replace(machine, gpus=gpus, jobs=jobs)


def _check_user(name: str, machine: WatchedMachine) -> None:
    try:
        pwd.getpwuid(int(name)) if name.isdecimal() else pwd.getpwnam(name)
    except (KeyError, OverflowError):
        owners = sorted({job.user for job in machine.jobs if job.user is not None})
        raise UsageError(
            f"There is no user {name!r}.",
            why="This machine has no such account, and no job of such a user.",
            hint=f"Users with jobs: {', '.join(owners)}" if owners else "",
        ) from None


def _is_named(gpu: str, uuid: str | None, name: str) -> bool:
    return name in (gpu, gpu.removeprefix("gpu")) or (
        len(name) > 4 and uuid is not None and uuid.startswith(name)
    )


def _print_once(args: argparse.Namespace, machine: WatchedMachine) -> None:
    from whyidle.reports._watch_table import render_machine

    if not _output.write_documents(args, json=lambda: machine):
        return
    colours, width = _output.stream_colours(), _columns()
    _output.print_text(render_machine(machine, width=width, colours=colours))


def _write_line(args: argparse.Namespace, machine: WatchedMachine) -> None:
    import msgspec

    line = msgspec.json.encode(machine).decode() + "\n"
    if args.json == STDOUT:
        sys.stdout.write(line)
        sys.stdout.flush()
        return
    try:
        with open(args.json, "a", encoding="utf-8") as file:  # noqa: PTH123  # /dev/fd/3 and the like
            file.write(line)
    except OSError as error:
        why = f"{error.strerror or error}."
        raise OutputError(f"Cannot write {args.json}.", why=why, hint="--json PATH") from error


def _check_gate(args: argparse.Namespace, machine: WatchedMachine) -> None:
    from whyidle.reports._watch_table import summarise_states

    if not args.fail_on_state:
        return
    if machine.absent is not None and not machine.gpus:  # a gate that cannot look must not pass
        raise InputError(
            f"--fail-on-state {','.join(args.fail_on_state)}: no GPU can be read.",
            why=machine.absent.reason,
            hint=machine.absent.how,
        )
    if named := summarise_states(machine, args.fail_on_state):
        raise GateError(
            f"--fail-on-state {','.join(args.fail_on_state)}: {named}.", hint="whyidle watch"
        )


def _columns() -> int:
    return max(40, min(_terminal_size()[0], 240))


def _terminal_size() -> tuple[int, int]:
    import shutil

    size = shutil.get_terminal_size((80, 24))
    return size.columns, size.lines


def _open_screen(running: ExitStack) -> Screen | None:
    if not sys.stdout.isatty() or os.environ.get("TERM", "dumb") in ("dumb", ""):
        return None
    from whyidle.cli._watch_screen import Screen

    return running.enter_context(Screen())


def _draw(screen: Screen | None, machine: WatchedMachine) -> None:
    from whyidle.reports._watch_table import render_machine

    width, (_, lines) = _columns(), _terminal_size()
    colours = _output.stream_colours()
    if screen is None:
        sys.stdout.write(render_machine(machine, width=width, colours=colours))
        sys.stdout.flush()
        return
    view = screen.view
    screen.draw_text(render_machine(machine, width=width, colours=colours, height=lines, view=view))
