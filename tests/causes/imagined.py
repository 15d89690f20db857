"""Imagined recordings of watched commands, written as the probe and the monitor write them."""

from whyidle.model.live import telemetry_lines
from whyidle.probe.core.recorder import ANNOTATION, OP, Recorder
from whyidle.record.recording_diagnosis import diagnose_jobs, note_end

S = 1_000_000_000
MS = S // 1000
THREAD = 1
BEGIN = 1_000 * S
"""when the process begins, on the clock of the records"""
FACTS = {
    "pid": 7,
    "device": "cpu",
    "thread": THREAD,
    "main": THREAD,
    "gpus": [],
    "process_start": BEGIN,
    "imported": BEGIN + 2 * S,
    "switches": {"num_threads": 1},
    "environment": {},
}


class Imagined:
    """A recording that is written moment by moment; ``now`` is how far it has come.

    Args:
        folder: where to write.
        facts: what the process says of itself, beside ``FACTS``.
    """

    def __init__(self, folder, **facts):
        self.folder = folder
        self.recorder = Recorder(str(folder))
        self.facts = {**FACTS, **facts}
        self.now = self.facts["imported"]
        self.stepped = 0

    def span(self, name, length, kind=ANNOTATION):
        """A call of the training thread, from now on."""
        self.recorder.add(
            (self.now, self.now + length, THREAD, self.recorder.name_number(name), kind)
        )
        self.now += length

    def look(self, stack, length, every=100 * MS, busy=1.0, held=0):
        """Stack samples over some time. ``busy`` is the share that the thread could run."""
        number = self.recorder.stack_number(stack)
        for at in range(self.now, self.now + length, every):
            runnable = int((at - self.now) * busy)
            self.recorder.samples.append((at, self._ran + runnable, THREAD, number, held))
        self._ran += int(length * busy)
        self.now += length

    _ran = 0

    def step(self, length=20 * MS, loader=0):
        """One training step: the wait for a batch, work, the optimizer."""
        if loader:
            self.span("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__", loader)
        self.span("whyidle::backward", length - MS, OP)
        self.span("whyidle::optimizer", MS, OP)
        self.now -= MS
        self.span("Optimizer.step#SGD.step", MS)
        self.stepped += 1
        self.facts.setdefault("first_step", self.now)

    def load(self, stack, length, busy=1.0):
        """A step whose batch this process makes itself, looked at as it does."""
        began = self.now
        self.look(stack, length, every=10 * MS, busy=busy)
        self.now = began
        self.step(loader=length)

    def seen(self):
        """It has the framework, and does not train."""
        facts = {name: self.facts[name] for name in self.facts if name != "switches"}
        self.recorder.presence = {**facts, "ended": self.now}
        self.recorder.flush_records()

    def trained(self, **facts):
        """It trained, and has ended."""
        self.recorder.facts = {**self.facts, **facts, "ended": self.now}
        self.recorder.flush_records()

    def telemetry(self, values, facts=None, end=None):
        """What the monitor read twice a second; a pair is a counter's growth per second, and what
        it began at."""
        columns = telemetry_lines.TelemetryWriter()
        text = telemetry_lines.header_line(BEGIN, BEGIN) + telemetry_lines.source_line(
            "nvml", facts or {}, {}
        )
        for at in range(BEGIN, (end or self.now) + 1, S // 2):
            seconds = (at - BEGIN) / S
            row = {
                name: value[0] * seconds + value[1] if isinstance(value, tuple) else value
                for name, value in values.items()
            }
            text += columns.row_lines("host", at, row)
        (self.folder / "telemetry.jsonl").write_bytes(text)

    def diagnose(self, command=("python", "train.py")):
        """The diagnosis of the command's only job."""
        note_end(self.folder, "imagined", command, None)
        (found,) = diagnose_jobs(self.folder)
        return found


def finding(diagnosis, cause):
    """The finding of a cause; None where there is none."""
    return next((one for one in diagnosis.findings if one.cause == cause), None)
