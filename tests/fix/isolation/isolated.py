"""Commands as a trial starts them, isolated."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap

from whyidle.fix.isolation import Isolation
from whyidle.record.launcher import BOOT

SHORT_S = 60


def environment(guard: Isolation) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(BOOT), **guard.environment()}


def run(guard: Isolation, *words: str, **options: object) -> subprocess.CompletedProcess[str]:
    """What came of a command."""
    return subprocess.run(
        guard.command(words),
        env=environment(guard),
        capture_output=True,
        text=True,
        check=False,
        timeout=SHORT_S,
        **options,
    )


def python(guard: Isolation, code: str, *words: str) -> str:
    """What a program prints that ends well."""
    done = run(guard, sys.executable, "-c", textwrap.dedent(code), *words)
    assert done.returncode == 0, done.stderr
    return done.stdout
