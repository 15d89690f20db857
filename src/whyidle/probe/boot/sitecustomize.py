"""Runs at the start of every Python process of a watched command, so it must be cheap.

It waits for the import of a framework, then loads the probe. A ``sitecustomize`` that this file
hides runs afterwards; if there is none, the module does not exist afterwards either.
"""

import sys

FRAMEWORKS = ("torch", "tensorflow", "jax")
"""packages whose import starts the probe, and the folders of their adapters"""


class _Waiter:
    """A finder that delegates to the other finders and calls ``wake`` once a module has been
    imported. Finding its spec alone is no import."""

    def __init__(self, module, wake):
        self.module = module
        self.wake = wake

    def find_spec(self, name, path=None, target=None):
        """Hook the loader of the module, so that it calls ``wake`` afterwards."""
        if name != self.module:
            if type(sys.meta_path[0]) is not _Waiter and self in sys.meta_path:
                # another tool went first: Comet's finder answers for torch, and we are not asked
                sys.meta_path.remove(self)
                sys.meta_path.insert(0, self)
            return None
        spec = None
        for finder in sys.meta_path:
            find = None if finder is self else getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find else None
            if spec is not None:
                break
        loader = getattr(spec, "loader", None)
        if not hasattr(loader, "exec_module") or not hasattr(loader, "__dict__"):
            return spec  # a loader of another kind: not watched
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
    """Load a file of the probe under a name of its own, as a package if it is one."""
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
    except Exception as error:  # the job continues without the probe
        _complain("the probe did not start", error)


def _waiters(folder, cores):
    def wait_for(name):
        return _Waiter(name, lambda _: _wake(folder, name, cores))

    return [wait_for(name) for name in FRAMEWORKS]


def _seed(folder, asked):
    """Seed what the job leaves unseeded, so that it is the same in every arm of a trial."""

    def complain(error):
        _complain("unseeded random generators were left to the system", error)

    try:
        import json

        unseeded = _load("_whyidle_unseeded", folder, "trial", "seeding.py")
        numpy = unseeded.install(int(json.loads(asked).get("seed") or 0), complain)
        sys.meta_path.insert(0, _Waiter(unseeded.NUMPY, numpy))
    except Exception as error:
        complain(error)


def _capture_metric(folder, path, wanted):
    """Note the values of a search's metric that the job logs to a tracker."""
    try:
        capture = _load("_whyidle_metric", folder, "trial", "metric_capture.py")
        sys.meta_path[:0] = [_Waiter(*each) for each in capture.list_waits(path, wanted)]
    except Exception as error:
        _complain("metrics that are logged to trackers are not read", error)


def _isolate(folder, asked):
    """Isolate a trial from the first line on; if that fails, end the process."""
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
        sys.meta_path[:0] = _waiters(folder, cores)
        if os.environ.get("WHYIDLE_METRIC_NAME"):
            _capture_metric(
                folder, os.environ["WHYIDLE_METRICS"], os.environ["WHYIDLE_METRIC_NAME"]
            )
        if os.environ.get("WHYIDLE_TRIAL"):
            _seed(folder, os.environ["WHYIDLE_TRIAL"])


def attach():
    """Start the probe in a running process, now or when a framework is imported. Returns a function
    that stops waiting for the import."""
    import os

    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    affinity = getattr(os, "sched_getaffinity", None)
    cores = affinity(0) if affinity else None
    waiters = _waiters(folder, cores)
    for waiter in waiters:
        if waiter.module in sys.modules:
            waiter.wake(None)
        else:
            sys.meta_path.insert(0, waiter)

    def detach():
        sys.meta_path[:] = [finder for finder in sys.meta_path if finder not in waiters]

    return detach


if __name__ == "sitecustomize":
    _boot()
    # Import the module of this name that this file hides; Python accepts that there is none.
    del sys.modules[__name__]
    __import__(__name__)
