"""What stands for the loop of a watched process where a hook is tested alone."""


class Loop:
    """Contains faults as the real one does, and remembers them as (where, error)."""

    def __init__(self):
        self.recorder, self.undo, self.faults, self.spans = self, {}, [], []

    def contained(self, where, work, *args):
        try:
            work(*args)
        except Exception as error:  # as broad as the real one, whose promise is to contain anything
            self.faults.append((where, error))
            self.undo.pop(where, lambda: None)()

    home, steps, off = 0, 0, frozenset()

    asked = 0
    """how often hooks were told that they may be traced"""

    def traced(self):
        self.asked += 1

    alerts = 0

    def alert(self):
        self.alerts += 1

    def span(self, name, kind, begin):
        self.spans.append(name)


class Trained(Loop):
    """One that has stepped, and notes who asks for what."""

    def __init__(self):
        super().__init__()
        self.facts, self.asked = {"pid": 1}, {}

    @classmethod
    def hooked(cls, install):
        """One with hooks, for as long as a test runs: the body of a fixture."""
        found = cls()
        install(found)
        yield found
        for undo in reversed(found.undo.values()):
            undo()
