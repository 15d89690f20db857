"""Records a process that runs already, for ``whyidle attach --inject``.

The interpreter runs a few lines of ``whyidle.engine.attachment.injection`` between two instructions
of the job's main thread. They start a thread that reads this file. It loads the probe, and removes
it when the look has ended: when whoever asked releases a lock, as its death does, too.
"""

import fcntl
import importlib.util
import json
import os
import sys
import time

MARGIN_S = 5.0
"""how much longer than asked the probe stays at most"""
PERIOD_S = 0.1
PROBE = "_whyidle_probe"


def record_process(alive, state, seconds):
    """Record this process while another one holds a lock on the file ``alive``; tell in the file
    ``state`` what became of it. Both are in the folder of the recording."""
    folder = os.path.dirname(state)
    if not os.path.exists(alive):  # the look was given up before this thread could start
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))
        os.rmdir(folder)
        return
    with open(alive, "rb") as lock:
        if _has_ended(lock):
            return
        why = _start(folder)
        _tell(state, "refused" if why else "recording", why)
        if why:
            return
        until = time.monotonic() + seconds + MARGIN_S
        while time.monotonic() < until and not _has_ended(lock):
            time.sleep(PERIOD_S)
        _stop()
        _tell(state, "left", "")


def _has_ended(lock):
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _start(folder):
    """Start the probe; return why it was not started."""
    if PROBE in sys.modules:
        return "It is watched already, by whyidle.watch() or another look."
    if os.environ.get("WHYIDLE_DISABLE") == "1":
        return "Its environment says WHYIDLE_DISABLE=1."
    boot = _load_boot()
    found = [name for name in boot.FRAMEWORKS if _is_imported(name)]
    if not found:
        return "It has not imported PyTorch, TensorFlow or JAX yet."
    place = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    try:
        probe = boot._load(PROBE, place, "__init__.py")
        for name in found:
            probe.install(name, None, folder)
    except Exception as error:
        _stop()
        return f"The probe did not start: {type(error).__name__}: {error}."
    return ""


def _load_boot():
    file = os.path.join(os.path.dirname(os.path.abspath(__file__)), "sitecustomize.py")
    spec = importlib.util.spec_from_file_location("_whyidle_boot", file)
    boot = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(boot)
    return boot


def _is_imported(name):
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return spec is not None and not getattr(spec, "_initializing", False)


def _stop():
    """Remove all hooks, and forget the modules of the probe."""
    uninstall = getattr(sys.modules.get(PROBE), "uninstall", None)
    if uninstall is not None:
        uninstall()
    for name in [name for name in sys.modules if name.partition(".")[0] == PROBE]:
        del sys.modules[name]


def _tell(path, state, why):
    with open(path + "~", "w", encoding="utf-8") as file:
        json.dump({"state": state, "why": why}, file)
    os.replace(path + "~", path)
