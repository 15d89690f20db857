"""Has PyTorch's profiler record the steps of a job's second half, where STEP_TRACE names a file."""

import json
import os
import time

import torch


class StepTrace:
    """One recording of consecutive steps, and when each of them began by the host's clock."""

    def __init__(self, device):
        self.path = os.environ.get("STEP_TRACE")
        self.most = int(os.environ.get("STEP_TRACE_STEPS", "100"))
        self.device, self.profiler, self.step, self.begins = device, None, None, []

    def note_boundary(self):
        """A step ends here, and the next one begins."""
        if self.path is None:
            return
        if self.profiler is None:
            self.profiler = torch.profiler.profile()
            self.profiler.start()
        else:
            self.step.__exit__(None, None, None)
        if len(self.begins) >= self.most:
            self.write_trace()
            return
        self.step = torch.profiler.record_function(f"ProfilerStep#{len(self.begins)}")
        self.begins.append(time.perf_counter_ns())
        self.step.__enter__()

    def finish(self):
        """The job ends, perhaps with fewer steps."""
        if self.path is not None and self.profiler is not None:
            self.step.__exit__(None, None, None)
            self.write_trace()

    def write_trace(self):
        """Write what was recorded."""
        self.device.synchronize()
        self.profiler.stop()
        self.profiler.export_chrome_trace(self.path)
        with open(self.path + ".clock", "w") as file:
            json.dump({"begins_ns": self.begins}, file)
        self.path = None
