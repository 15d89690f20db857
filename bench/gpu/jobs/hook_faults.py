"""Breaks a part of the probe inside its own job, where HOOK_FAULTS names it, to see that the job
does not notice. Without the probe, or without the variable, it does nothing."""

import gc
import os
import sys

FIRST_STEP = 5
CLOCKS = ("CudaClock", "AcceleratorClock")


class HookFaults:
    """One part that fails from a step on; prints how often it was called."""

    def __init__(self):
        self.part = os.environ.get("HOOK_FAULTS", "")
        self.calls = 0

    def fail(self, *args, **kwargs):
        """In place of the part."""
        self.calls += 1
        raise ValueError("a planted fault")

    def note_step(self, step):
        """Break the part when the probe has set up what it has."""
        if self.part and step == FIRST_STEP:
            owner, _, name = self.part.partition(".")
            getattr(self, f"break_{owner}")(name)

    def break_clock(self, name):
        """A call to the device's events or streams."""
        for module in list(sys.modules.values()):
            if getattr(module, "__name__", "").startswith("_whyidle_probe."):
                for clock in CLOCKS:
                    if getattr(module, clock, None) is not None:
                        setattr(getattr(module, clock), name, self.fail)

    def break_profiler(self, name):
        """A call to the profiler that records a burst."""
        for module in list(sys.modules.values()):
            if getattr(module, "__name__", "").startswith("_whyidle_probe."):
                if getattr(module, "TorchProfiler", None) is not None:
                    setattr(module.TorchProfiler, name, self.fail)

    def break_spans(self, name):
        """The writing down of anything: reads, waits, copies, backward passes, steps."""
        for events in [thing for thing in gc.get_objects() if type(thing).__name__ == "Events"]:
            events.add = self.fail

    def report(self):
        """How often the broken part was called."""
        if self.part:
            print(f"planted faults met: {self.calls}", flush=True)
