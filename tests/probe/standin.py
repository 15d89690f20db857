"""The probe's events in a process of their own making, for tests of one hook alone."""

import tempfile

from whyidle.probe.core.events import Events
from whyidle.probe.core.recorder import Recorder
from whyidle.probe.frameworks.torch.adapter import Adapter


class Framework:
    """Names things as PyTorch does, and traces nothing."""

    is_tracing = staticmethod(bool)
    backward_label = "whyidle::backward"
    name_batch = staticmethod(Adapter.name_batch)
    name_optimizer = staticmethod(Adapter.name_optimizer)

    def describe_process(self):
        return None

    def describe_training(self, optimizer):
        return {"pid": 1}


class Loop(Events):
    """The real one, which also remembers faults as (where, error), labels of spans, and rows."""

    alerts = asked = 0
    """how often hooks were told that there may be more to do, and that they may be traced"""

    def __init__(self, folder=None):
        self.faults, self.spans, self.rows = [], [], []
        super().__init__(Recorder(str(folder or tempfile.mkdtemp())), Framework())
        self.recorder.add_row = self.row

    def remove_faulty(self, where, error):
        self.faults.append((where, error))
        self._take_off(where)

    def add_span(self, role, label, kind, begin):
        self.spans.append(label)

    def row(self, suffix, layout, row):
        self.rows.append((suffix, layout.unpack(layout.pack(*row))))

    def be_careful(self):
        self.alerts += 1
        super().be_careful()

    def note_tracing(self):
        self.asked += 1
        super().note_tracing()

    @property
    def documents(self):
        return self.recorder.documents

    @property
    def facts(self):
        return self.recorder.facts


class Trained(Loop):
    """One that has stepped."""

    def __init__(self):
        super().__init__()
        self.recorder.facts = {"pid": 1}
