"""Runs at the start of every Python process of a watched command, and must cost next to nothing.

It waits for a framework to be imported, then loads the probe. A ``sitecustomize`` that this file
hides is run as if this one were not here; where it hides none, there is none afterwards either.
"""

import sys


class _Waiter:
    """A finder that finds nothing itself: it lets the others find the framework, and wakes the
    probe once the framework has been imported. Asking for the framework's spec is no import."""

    def __init__(self, folder, cores):
        self.folder = folder
        self.cores = cores

    def find_spec(self, name, path=None, target=None):
        """Have the framework's loader wake the probe."""
        if name != "torch":
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
                _wake(self.folder, name, self.cores)

        loader.exec_module = exec_module
        return spec


def _wake(folder, name, cores):
    try:
        import importlib.util
        import os

        spec = importlib.util.spec_from_file_location(
            "_whyidle_probe",
            os.path.join(folder, "__init__.py"),
            submodule_search_locations=[folder],
        )
        probe = importlib.util.module_from_spec(spec)
        sys.modules["_whyidle_probe"] = probe
        spec.loader.exec_module(probe)
        probe.install(name, cores)
    except Exception as error:  # the job goes on without us, whatever it was
        _complain(error)


def _shield(folder, asked):
    """What a trial may not do is held back from the first line on, and never switched off: without
    this the process must not go on."""
    import os

    try:
        _load_shield(folder, asked)
    except Exception as error:
        os.write(2, f"whyidle: the trial could not be shielded: {error!r}\n".encode())
        os._exit(125)


def _load_shield(folder, asked):
    import importlib.util
    import os

    spec = importlib.util.spec_from_file_location(
        "_whyidle_shield",
        os.path.join(folder, "shield", "__init__.py"),
        submodule_search_locations=[os.path.join(folder, "shield")],
    )
    shield = importlib.util.module_from_spec(spec)
    sys.modules["_whyidle_shield"] = shield
    spec.loader.exec_module(shield)
    shield.install(asked)


def _complain(error):
    import os

    try:
        place = os.path.join(os.environ["WHYIDLE_RUN"], f"{os.getpid()}.faults")
        with open(place, "a") as file:
            file.write(f"the probe did not start: {type(error).__name__}: {error}\n")
    except (OSError, KeyError):
        pass


def _boot():
    import os

    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [entry for entry in sys.path if not entry or os.path.abspath(entry) != here]
    if os.environ.get("WHYIDLE_SHIELD"):
        _shield(os.path.dirname(here), os.environ["WHYIDLE_SHIELD"])
    if os.environ.get("WHYIDLE_RUN") and os.environ.get("WHYIDLE_DISABLE") != "1":
        affinity = getattr(os, "sched_getaffinity", None)
        sys.meta_path.insert(0, _Waiter(os.path.dirname(here), affinity(0) if affinity else None))


if __name__ == "sitecustomize":
    _boot()
    # From here on it is as if this file were not there: the module of this name is the one that it
    # hides, or there is none, which Python's start-up takes for granted.
    del sys.modules[__name__]
    __import__(__name__)
