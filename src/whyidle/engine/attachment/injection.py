"""Wakes the probe inside a process that runs already, by Python's own remote execution (PEP 768),
and diagnoses what it recorded until the look ended."""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timezone
from pathlib import Path
from shutil import rmtree
from typing import Final

import msgspec

from whyidle.engine.attachment.target_process import TargetProcess, has_ended, refuse_access
from whyidle.engine.recording.launcher import BOOT, CommandEnd
from whyidle.engine.recording.monitor import Monitor
from whyidle.engine.recording.recording_diagnosis import TELEMETRY, diagnose_recording, note_end
from whyidle.errors import InputError
from whyidle.model.diagnosis import Diagnosis
from whyidle.model.telemetry import Target

ALIVE: Final = "alive"
"""a file that is locked while the look lasts"""
STATE: Final = "injected.json"
"""what became of the look, written by the job"""
ENTRY: Final = "entry.py"
"""what the job's interpreter executes"""
ENTERED_S: Final = 15.0
"""how long the job's main thread may stay in one call, which no injected code interrupts"""
LEFT_S: Final = 20.0
"""how long the probe may take to leave: a write to a slow disk, and the next backward pass"""
_POLL_S: Final = 0.05
_PYTHON: Final = re.compile(r"python[\d.]*t?( \(deleted\))?")
_CALL: Final = (
    "import sys; print(sys.version.split()[0], flush=True); "
    "sys.remote_exec(int(sys.argv[1]), sys.argv[2])"
)
_TEXT: Final = """\
def enter():
    import _signal, _thread
    def record():
        try:
            with open({file!r}, encoding="utf-8") as source:
                code = compile(source.read(), {file!r}, "exec")
            names = {{"__name__": "_whyidle_injected", "__file__": {file!r}}}
            exec(code, names)
            names["record_process"]({alive!r}, {state!r}, {seconds!r})
        except Exception as error:
            try:
                with open({state!r}, "w") as file:
                    file.write('{{"state": "refused", "why": "%s."}}' % type(error).__name__)
            except OSError:
                pass
    before = _signal.pthread_sigmask(_signal.SIG_BLOCK, ())
    faults = {{_signal.SIGSEGV, _signal.SIGBUS, _signal.SIGFPE, _signal.SIGILL, _signal.SIGABRT}}
    try:
        _signal.pthread_sigmask(_signal.SIG_BLOCK, _signal.valid_signals() - faults)
        _thread.start_new_thread(record, ())
    except RuntimeError:
        pass
    finally:
        _signal.pthread_sigmask(_signal.SIG_SETMASK, before)
try:
    enter()
except KeyboardInterrupt:
    import _thread
    _thread.interrupt_main()
"""
"""It runs on the job's main thread, between any two instructions, so it only starts a thread, which
takes no signals. Python would drop a Ctrl-C that arrives here: it is sent once more."""

Request = Callable[[TargetProcess, Path], None]
"""asks a process to execute a file"""


def look_from_inside(
    target: TargetProcess, seconds: float, request: Request | None = None
) -> Diagnosis:
    """Record a process from inside for some seconds, and diagnose the recording.

    Raises:
        InputError: it may not be entered, does not let the probe in, or did not train.
    """
    _check_target(target)
    started = datetime.now(timezone.utc).isoformat(timespec="seconds")
    with _look_folder(target) as folder:
        with (folder / ALIVE).open("wb") as alive:
            fcntl.flock(alive, fcntl.LOCK_EX)
            entry = _write_entry(target, folder, seconds)
            (request or execute_remotely)(target, entry)
            _await_entry(target, folder)
            begin = time.monotonic()
            with Monitor(Target(pid=target.pid), folder / TELEMETRY):
                while time.monotonic() - begin < seconds and not has_ended(target.pid):
                    time.sleep(_POLL_S)
            length_s = time.monotonic() - begin
        left = _await_state(target, folder, ("left",), LEFT_S) is not None
        ended = CommandEnd(status=0, started=started, duration_s=length_s)
        note_end(folder, f"attach-{target.pid}", target.command, ended)
        diagnosis = diagnose_recording(folder, str(target.pid))
    return _word_look(diagnosis, target, length_s, left=left)


def _refuse(target: TargetProcess, why: str, hint: str = "") -> InputError:
    if has_ended(target.pid):
        return InputError(f"Process {target.pid} ended before the look.")
    hint = hint or f"Look from outside instead: whyidle attach {target.pid}"
    return InputError(f"Process {target.pid} was not entered.", why=why, hint=hint)


def _check_target(target: TargetProcess) -> None:
    if not target.libraries:
        raise _refuse(target, "It has loaded neither PyTorch nor TensorFlow nor JAX.")
    with suppress(OSError):
        spaces = {Path(f"/proc/{one}/ns/mnt").readlink() for one in (target.pid, os.getpid())}
        if len(spaces) > 1 or not Path(f"/proc/{target.pid}/root").samefile("/"):
            hint = "Run whyidle in the container, by docker exec or kubectl exec."
            raise _refuse(target, "It is in a container, whose files are others.", hint)


@contextmanager
def _look_folder(target: TargetProcess) -> Iterator[Path]:
    """A folder for the recording. It stays if the job has been asked and has not answered: its
    thread then finds no ``ALIVE``, does nothing, and removes the folder."""
    folder = Path(tempfile.mkdtemp(prefix="whyidle-attach-"))
    try:
        yield folder
    finally:
        asked, answered = (folder / ENTRY).exists(), (folder / STATE).exists()
        if asked and not answered and not has_ended(target.pid):
            (folder / ALIVE).unlink(missing_ok=True)
        else:
            rmtree(folder, ignore_errors=True)


def _write_entry(target: TargetProcess, folder: Path, seconds: float) -> Path:
    entry = folder / ENTRY
    places = {name: str(folder / file) for name, file in (("alive", ALIVE), ("state", STATE))}
    text = _TEXT.format(file=str(BOOT / "running_process.py"), seconds=float(seconds), **places)
    entry.write_text(text, encoding="utf-8")
    if os.geteuid() == 0:  # the job of a user must be able to write here
        owner = Path(f"/proc/{target.pid}").stat()
        for path in (folder, folder / ALIVE, entry):
            os.chown(path, owner.st_uid, owner.st_gid)
    return entry


def execute_remotely(target: TargetProcess, entry: Path) -> None:
    """Have a process execute a file, by its own interpreter; root uses whyidle's own, as a user's
    program must not run as root.

    Raises:
        InputError: its Python is older, does not allow it, or may not be entered.
    """
    pid = target.pid
    place = Path(f"/proc/{pid}/exe").readlink()
    if Path(f"/proc/{pid}").stat().st_uid == os.geteuid():
        name, program = str(place).removesuffix(" (deleted)"), f"/proc/{pid}/exe"
        refusal = None if _PYTHON.fullmatch(place.name) else f"Its program is {place.name}."
    else:
        name = program = sys.executable
        refusal = None if hasattr(sys, "remote_exec") else "It belongs to another user."
    if refusal is None:
        done = subprocess.run(
            [name, "-I", "-S", "-c", _CALL, str(pid), str(entry)],
            executable=program, capture_output=True, text=True, check=False, errors="replace",
        )  # fmt: skip
        if not done.returncode:
            return
    entry.unlink()
    if refusal is not None:
        raise _refuse(target, refusal)
    raise _explain_refusal(target, done.stdout.strip(), done.stderr)


def _explain_refusal(target: TargetProcess, version: str, output: str) -> InputError:
    error = next(iter(reversed(output.strip().splitlines())), "")
    if "PermissionError" in error or "Operation not permitted" in error:
        return refuse_access(target.pid, command=f"whyidle attach {target.pid} --inject")
    if "AttributeError" in error:
        return _refuse(target, f"Its Python is {version}; 3.14 is the first that can be.")
    if "not enabled" in error or "not support" in error:
        why = "Its Python does not allow it: PYTHON_DISABLE_REMOTE_DEBUG, -X disable-remote-debug"
        return _refuse(target, f"{why}, or its build.")
    return _refuse(target, f"{error or 'Its interpreter gave no reason'}.")


def _await_entry(target: TargetProcess, folder: Path) -> None:
    state = _await_state(target, folder, ("recording", "refused", "left"), ENTERED_S)
    if state is not None and state.get("state") != "refused":
        return
    if state is not None:
        raise _refuse(target, str(state["why"]))
    why = f"Its main thread has run no Python for {ENTERED_S:g} s: it waits in one call."
    raise _refuse(target, f"{why} Nothing will be recorded once it returns.")


def _await_state(
    target: TargetProcess, folder: Path, states: tuple[str, ...], limit_s: float
) -> dict[str, str] | None:
    """What the job wrote, once it is one of some states; None after ``limit_s``, or at its end."""
    until = time.monotonic() + limit_s
    while True:
        ended = has_ended(target.pid)
        with suppress(OSError, ValueError):
            state: dict[str, str] = json.loads((folder / STATE).read_text(encoding="utf-8"))
            if state["state"] in states:
                return state
        if ended or time.monotonic() > until:
            return None
        time.sleep(_POLL_S)


def _word_look(
    diagnosis: Diagnosis, target: TargetProcess, length_s: float, *, left: bool
) -> Diagnosis:
    before = "what the job did before is not known, nor what its loader workers do"
    notes = [f"a look from inside for {length_s:.1f} s: {before}"]
    if not left:
        ended = f"process {target.pid} ended during the look"
        stays = f"the probe had not left {LEFT_S:g} s after the look"
        notes.append(ended if has_ended(target.pid) else stays)
    coverage = diagnosis.coverage
    return msgspec.structs.replace(
        diagnosis,
        run=msgspec.structs.replace(diagnosis.run, folder=target.folder, exit_status=None),
        coverage=msgspec.structs.replace(coverage, notes=[*notes, *coverage.notes]),
    )
