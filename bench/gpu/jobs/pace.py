"""Ends a job after some seconds, and prints how fast its second half was.

PACE_STEPS ends it after so many steps instead, PACE_PAUSE_S sleeps in each step, PACE_STARTED names
a file to hold the process's number once it steps, PACE_MEMORY prints what the device's memory held.
"""

import os
import time

import torch

from hook_faults import HookFaults
from step_trace import StepTrace


class Pace:
    """Counts steps; the device is idle when the timed half begins and when it ends."""

    def __init__(self, device, seconds, batch):
        self.device, self.seconds, self.batch = getattr(torch, device), seconds, batch
        self.begin = time.perf_counter()
        self.steps = 0
        self.timed_from = None
        self.trace, self.faults = StepTrace(self.device), HookFaults()
        self.most = int(os.environ.get("PACE_STEPS", "0"))
        self.pause_s = float(os.environ.get("PACE_PAUSE_S", "0"))

    def finish_step(self, loss=None):
        """Whether the job's time is over; prints the pace when it is."""
        self.steps += 1
        if self.steps == 1 and "PACE_STARTED" in os.environ:
            with open(os.environ["PACE_STARTED"], "w") as file:
                file.write(str(os.getpid()))
        self.faults.note_step(self.steps)
        if self.pause_s:
            time.sleep(self.pause_s)
        done = self.done_ratio()
        if self.timed_from is None and done > 0.5:
            self.device.synchronize()
            self.timed_from = time.perf_counter(), self.steps
        if self.timed_from is not None:
            self.trace.note_boundary()
        if self.timed_from is None or done < 1:
            return False
        self.trace.finish()
        self.device.synchronize()
        begin, steps = self.timed_from
        step_s = (time.perf_counter() - begin) / max(self.steps - steps, 1)
        print(f"steps {self.steps}, {step_s * 1e3:.4f} ms a step, batch {self.batch}, ", end="")
        print(f"loss {loss.item():.9g}" if loss is not None else "no loss", flush=True)
        self.faults.report()
        if "PACE_MEMORY" in os.environ:
            self.print_memory()
        return True

    def done_ratio(self):
        """How much of the job is done."""
        if self.most:
            return self.steps / self.most
        return (time.perf_counter() - self.begin) / self.seconds

    def print_memory(self):
        """Bytes: by tensors at most, held by the allocator at most, in use on the device now."""
        free, total = self.device.mem_get_info()
        most = self.device.max_memory_allocated(), self.device.max_memory_reserved()
        print("memory", *most, total - free, flush=True)
