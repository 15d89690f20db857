"""The next useful commands after a diagnosis."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whyidle.model.diagnosis import Diagnosis, Finding

Step = tuple[str, str]
TRY = "try the fixes and keep those that are faster"


def next_steps(
    diagnosis: Diagnosis, paths: Sequence[Path], stored: str | None, store: Path | None = None
) -> list[Step]:
    """The commands to continue with after a recording was explained. ``stored`` is the name of the
    stored run, ``store`` the folder of --store."""
    if not stored and not paths:  # a watched run that is not stored
        return _list_steps(diagnosis, "", "")[: bool(_serious_findings(diagnosis))]
    report = f"whyidle report {stored}{store_option(store)}"
    command = report if stored else f"whyidle explain {shell_text(paths)} --all"
    steps = _list_steps(diagnosis, command, "", store if stored else None)
    if diagnosis.command_failed or diagnosis.saw_nothing:
        return steps
    whole = (command, "the full report" if stored else "everything")
    return [*steps[:1], whole, *steps[1:]]


def after_report(diagnosis: Diagnosis, name: str, store: Path | None = None) -> list[Step]:
    """The commands to continue with after a stored diagnosis was rendered in full."""
    command = f"whyidle report {shlex.quote(name)}{store_option(store)}"
    return _list_steps(diagnosis, command, shlex.quote(name), store)


def _list_steps(
    diagnosis: Diagnosis, command: str, before: str, store: Path | None = None
) -> list[Step]:
    """The fix or the page of the cause, the HTML page of ``command``, and with the name of the run,
    ``before``, its comparison."""
    serious = _serious_findings(diagnosis)
    if diagnosis.saw_nothing and not serious:
        return [("whyidle doctor", "what can be measured on this machine")]
    about = [(f"whyidle causes {serious[0].cause}", "about this cause")] if serious else []
    fix, failed = _fix_command(diagnosis, serious), _command_failed(diagnosis)
    steps = [(fix, TRY)] if fix and not failed else about
    by_hand = serious and diagnosis.verdict.bound == "compute" and not fix
    if (by_hand or not serious) and not failed and (look := _look_command(diagnosis)):
        steps = [(look, "measure in more detail, at the cost of a few dozen steps")]
    words = diagnosis.run.command if diagnosis.memory and diagnosis.memory.peak else None
    if words and not fix:
        scale = shlex.join(["whyidle", "scale", "--to", "8", *words])
        steps = [(scale, "what limits it on 8 ranks")]
    if not (fix and failed):
        steps.append((f"{command.removesuffix(' --all')} --html why.html", "as an HTML page"))
    fixed = diagnosis.detail.fixed
    if fixed is not None and fixed.run and before:
        steps.append((f"whyidle compare {before} {fixed.run}{store_option(store)}", "what changed"))
    elif serious and before:
        steps.append(
            (f"whyidle compare {before} AFTER{store_option(store)}", "after you have fixed it")
        )
    if fix and failed:  # its trials would fail as well
        steps.append((fix, "when the command no longer fails: try the fixes"))
    return steps


def _command_failed(diagnosis: Diagnosis) -> bool:
    from whyidle.reports._exit_status import describe_exit

    return describe_exit(diagnosis)[0] == "failed"


def _fix_command(diagnosis: Diagnosis, serious: list[Finding]) -> str:
    command = diagnosis.run.command if not diagnosis.trials else None
    fixes = [fix for finding in serious for fix in finding.fixes]
    if not command or not any(fix.automatic and fix.edits for fix in fixes):
        return ""
    return f"whyidle fix {shlex.join(command)}"


def _look_command(diagnosis: Diagnosis) -> str:
    """The command that looks closely, for a watched job of PyTorch that was not yet."""
    command, seen = diagnosis.run.command, diagnosis.memory or diagnosis.architecture
    if not command or seen or diagnosis.run.framework != "pytorch":
        return ""
    return f"whyidle run --look {shlex.join(command)}"


def _serious_findings(diagnosis: Diagnosis) -> list[Finding]:
    from whyidle.reports._trial_outcomes import order_findings

    return [finding for finding in order_findings(diagnosis) if finding.severity != "info"]


def store_option(store: Path | None) -> str:
    """The option ``--store`` for a next command, if the user gave it."""
    return f" --store {shlex.quote(str(store))}" if store else ""


def shell_text(paths: Sequence[Path]) -> str:
    """The paths, quoted for a shell."""
    return " ".join(shlex.quote(str(path)) for path in paths)
