"""The cores of loader workers: lines at the top of the script."""

from __future__ import annotations

from whyidle.model.patch import KnobChange, Rewrite, source_form
from whyidle.patches._source_tree import source_of
from whyidle.patches._statement_edits import at_the_top

LINES = (
    "import os",
    "",
    "# workers may use all cores that the command was given, whatever binds this process later",
    "os.register_at_fork(",
    "    after_in_child=lambda cores=os.sched_getaffinity(0): os.sched_setaffinity(0, cores)",
    ")",
)


@source_form("loader.full_affinity")
def affinity(text: str, change: KnobChange) -> Rewrite:
    """Imports may bind the process, so only the script's first lines know the cores of the command:
    from there on each fork gets them back. Workers that are not forked stay bound."""
    if LINES[4] in text:
        return Rewrite(text, done=True)
    if not change.insert or not change.value:
        return Rewrite(text)
    source = source_of(text)
    found = at_the_top(source, *LINES)
    if found is None:
        return Rewrite(text)
    return Rewrite(source.replace_nodes({found[0]: found[1]}), done=True)
