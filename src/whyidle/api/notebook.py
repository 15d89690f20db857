"""The cell magic ``%%whyidle``."""

from __future__ import annotations

import sys
from typing import Any, get_args

from whyidle.api.own_process import Profile, Watch
from whyidle.errors import UsageError, WhyidleError


def register_magics(shell: Any) -> None:
    """Add ``%%whyidle`` to an IPython shell."""

    def whyidle(line: str, cell: str) -> None:
        _run_watched(shell, line, cell)

    whyidle.__doc__ = _run_watched.__doc__
    shell.register_magic_function(whyidle, "cell")


def _run_watched(shell: Any, line: str, cell: str) -> None:
    """Watch this process while the cell runs, then display why its device idled.

    ``%%whyidle [auto|off|look] [NAME]``: when to record three steps with the framework's profiler,
    and the variable that receives the diagnosis.
    """
    words = line.split()
    profile: Profile = "auto"
    for choice in get_args(Profile):
        if words[:1] == [choice]:
            profile = choice
            words = words[1:]
    if len(words) > 1 or not all(word.isidentifier() for word in words):
        raise UsageError(f"%%whyidle does not understand {line!r}.", hint="%%whyidle look NAME")
    watch = Watch(profile=profile)
    watch.start()
    try:
        result = shell.run_cell(cell)
    finally:
        watch.stop(1 if sys.exc_info()[0] else 0)
    _show_diagnosis(shell, watch, words, failed=not result.success)


def _show_diagnosis(shell: Any, watch: Watch, names: list[str], *, failed: bool) -> None:
    from IPython.display import display

    try:
        diagnosis = watch.diagnosis
    except WhyidleError as error:
        print(f"whyidle: {error}", file=sys.stderr)
        return
    if diagnosis is None:
        print("whyidle: not watched: under whyidle run, or WHYIDLE_DISABLE=1", file=sys.stderr)
        return
    shell.user_ns.update(dict.fromkeys(names, diagnosis))
    if not failed:
        display(diagnosis)
