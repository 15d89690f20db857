"""Runs at the start of every Python process of a watched command, and must cost next to nothing.

It waits for a framework to be imported, then loads the probe. A ``sitecustomize`` that this file
hides is run as if this one were not here; where it hides none, there is none afterwards either.
"""

import sys


class _Waiter:
    """A finder that finds nothing itself: it lets the others find a module, and calls ``wake`` once
    that has been imported. Asking for its spec is no import."""

    def __init__(self, module, wake):
        self.module = module
        self.wake = wake

    def find_spec(self, name, path=None, target=None):
        """Have the module's loader call us afterwards."""
        if name != self.module:
            return None
        spec = None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find else None
            if spec is not None:
                break
        loader = getattr(spec, "loader", None)
        if not hasattr(loader, "exec_module") or not hasattr(loader, "__dict__"):
            return spec  # imported in a way of its own, and not watched
        original = loader.exec_module

        def exec_module(module):
            loader.__dict__.pop("exec_module", None)
            original(module)
            if self in sys.meta_path:
                sys.meta_path.remove(self)
                self.wake(module)

        loader.exec_module = exec_module
        return spec


def _load(name, *path):
    """A file of ours, under a name of its own; as a package where it is one."""
    import importlib.util
    import os

    file = os.path.join(*path)
    inside = [os.path.dirname(file)] if path[-1] == "__init__.py" else None
    spec = importlib.util.spec_from_file_location(name, file, submodule_search_locations=inside)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _wake(folder, name, cores):
    try:
        probe = sys.modules.get("_whyidle_probe")
        probe = probe or _load("_whyidle_probe", folder, "__init__.py")
        probe.install(name, cores)
    except Exception as error:  # the job goes on without us, whatever it was
        _complain("the probe did not start", error)


def _seed(folder, asked):
    """In a trial, what the system would seed is the same in every arm: from the first line on."""

    def complain(error):
        _complain("what nobody seeds was left to the system", error)

    try:
        import json

        unseeded = _load("_whyidle_unseeded", folder, "trial", "seeding.py")
        numpy = unseeded.install(int(json.loads(asked).get("seed") or 0), complain)
        sys.meta_path.insert(0, _Waiter(unseeded.NUMPY, numpy))
    except Exception as error:
        complain(error)


def _isolate(folder, asked):
    """What a trial may not do is held back from the first line on, and never switched off: without
    this the process must not go on."""
    import os

    try:
        _load("_whyidle_isolation", folder, "isolation", "__init__.py").install(asked)
    except Exception as error:
        os.write(2, f"whyidle: the trial could not be isolated: {error!r}\n".encode())
        os._exit(125)


def _complain(what, error):
    import os

    try:
        place = os.path.join(os.environ["WHYIDLE_RUN"], f"{os.getpid()}.faults")
        with open(place, "a") as file:
            file.write(f"{what}: {type(error).__name__}: {error}\n")
    except (OSError, KeyError):
        pass


def _boot():
    import os

    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if not entry or os.path.abspath(entry) != here]
    folder = os.path.dirname(here)
    if os.environ.get("WHYIDLE_ISOLATION"):
        _isolate(folder, os.environ["WHYIDLE_ISOLATION"])
    if os.environ.get("WHYIDLE_RUN") and os.environ.get("WHYIDLE_DISABLE") != "1":
        affinity = getattr(os, "sched_getaffinity", None)
        cores = affinity(0) if affinity else None
        sys.meta_path.insert(0, _Waiter("torch", lambda _: _wake(folder, "torch", cores)))
        if os.environ.get("WHYIDLE_TRIAL"):
            _seed(folder, os.environ["WHYIDLE_TRIAL"])


def attach():
    """Start the probe in a process that runs already: at once where the framework is imported,
    else when it is imported. Returns what ends the waiting for that."""
    import os

    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    affinity = getattr(os, "sched_getaffinity", None)
    cores = affinity(0) if affinity else None
    waiter = _Waiter("torch", lambda _: _wake(folder, "torch", cores))
    if "torch" in sys.modules:
        waiter.wake(None)
    else:
        sys.meta_path.insert(0, waiter)
    return lambda: waiter in sys.meta_path and sys.meta_path.remove(waiter)


if __name__ == "sitecustomize":
    _boot()
    # From here on it is as if this file were not there: the module of this name is the one that it
    # hides, or there is none, which Python's start-up takes for granted.
    del sys.modules[__name__]
    __import__(__name__)
