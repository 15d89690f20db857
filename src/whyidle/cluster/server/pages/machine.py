"""The server's machine: host, GPUs, and the jobs on them."""

from __future__ import annotations

from whyidle.cluster.server.site import NothingYetError, Page, Question
from whyidle.model.documents.watch_document import WatchedMachine


def _read_machine(question: Question) -> WatchedMachine:
    machine = question.machine()
    if machine is None:
        raise NothingYetError("The machine has not been read yet.", hint="Try again in a second.")
    return machine


PAGE = Page(
    path="/machine",
    title="Machine",
    template="machine.html",
    document=WatchedMachine,
    read=_read_machine,
    section="machine",
    live=True,
)
