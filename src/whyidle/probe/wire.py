"""What the probe and the readers of its files share: layouts, facts, and roles of spans.

Standard library only, so that importers may import it. Times are those of ``time.perf_counter_ns``,
which all processes of a host share.

A span's name has two parts. Its *role* says what the span is, independent of the framework; readers
of a recording use only the role. Its *label* is shown to the user, in the framework's spelling.
"""

from __future__ import annotations

import struct
from typing import Any

MAGIC = b"whyidle spans 1\n"
"""the first bytes of ``PID.spans``: file type and version of the layout"""
SPAN = struct.Struct("<qqQIB3x")
"""``PID.spans``: begin ns, end ns, thread, name, kind"""
SAMPLE = struct.Struct("<qqQII")
"""``PID.samples``: time ns, how long the thread has been runnable ns (-1: unknown), thread, stack,
how long the interpreter lock was held when the sample was due us. Of the last, the highest bit says
whether the thread was awake, and the three below it how often the sampler's thread gave up its
core: 1: the lock was free, more: it was held, 0: unknown"""
BATCH = struct.Struct("<9q3Ii")
"""``PID.batches``: begin ns, end ns, then ns of: the thread's CPU, the process's CPU, run-queue
delay of the thread, collating, CPU of pickling earlier batches; characters read, bytes read from
storage; page faults that read, files opened, samples, worker (-1: the training process). -1: not
read"""
TAKE = struct.Struct("<3qiI")
"""``PID.takes``: begin ns, end ns, CPU ns of unpickling, batches ready or on their way at begin,
number of iterator"""
ROW = struct.Struct("<qqI4x")
"""``PID.rows``: time ns, index of a sample, checksum of the sample"""
PAD = struct.Struct("<5qIi")
"""``PID.padding``: time ns, then positions (rows times length): real, all, all if padded to the
longest row; value of padding; rows, method of the measurement"""
MARK = struct.Struct("<qqqIBBH")
"""``PID.device``: begin of what ends here ns (a batch: its request), when the mark was recorded ns,
when the device completed it ns (since the first mark of the window), window, kind, whether the
previous mark had completed (1) or not (0; 2: there is none), 0"""
CLOCK = struct.Struct("<3qQ")
"""``PID.clock``: end of an exchange of gradients ns; until then, ns of the thread on a core and
waiting for one (-1: unknown); the thread"""


ProcessFacts = dict[str, Any]
"""``PID.facts.json`` of a process that trains; ``PID.seen.json`` of one that does not has a part of
it. Keys, types and units are declared once, in ``model.process_facts``; a test holds that the probe
writes no others. A key that is missing or None was not measured."""
OptimizerFacts = ProcessFacts
Switches = ProcessFacts
"""parts of it"""

NO_ROLE = ""
"""role of a span that is only shown"""

LOADER_START = "loader_start"
"""an iterator over batches is created, which may start worker processes"""
BATCH_INLINE = "batch_inline"
"""the next batch, made in the training process"""
BATCH_FROM_WORKERS = "batch_from_workers"
"""the next batch, made by worker processes"""
BATCH_FROM_ITERATOR = "batch_from_iterator"
"""the next batch, from an iterator of any other kind"""
BACKWARD = "backward"
OPTIMIZER = "optimizer"
"""a whole optimizer step: it ends the training step"""
OPTIMIZER_OPERATORS = "optimizer_operators"
"""the operators of an optimizer step"""
STEP_MARKED = "step_marked"
"""a moment that the script marks as the end of a step: ``whyidle.step()``"""
GRADIENT_SEARCH = "gradient_search"
"""a search for the parameters that get no gradient"""

EVALUATION = "evaluation"
"""with gradients off"""
EVALUATION_WITH_GRADIENTS = "evaluation_with_gradients"
CHECKPOINT = "checkpoint"
LOGGING = "logging"
CALLBACK = "callback"
"""a trainer calls the job's callbacks after a batch, or before one"""
COMPILE = "compile"
"""code is compiled for the first time"""
RECOMPILE = "recompile"
"""code is compiled once more"""
GARBAGE_COLLECTION = "garbage_collection"
"""Python's collector runs by itself"""
GARBAGE_COLLECTION_CALL = "garbage_collection_call"
"""the script calls the collector"""
CACHE_RELEASE = "cache_release"
"""the framework releases cached device memory"""
PROFILING = "profiling"
"""steps that the probe itself records in detail"""

COLLECTIVE = "collective"
"""from the call of a collective to its completion"""
COLLECTIVE_WAIT = "collective_wait"
"""the host waits for a collective that was started earlier"""
SYNCHRONIZE = "synchronize"
"""the host waits for all work of the device"""
SCALAR_READ = "scalar_read"
"""the host waits for the value of a tensor"""

EXECUTION = "execution"
"""the device runs a compiled step, from its call to its completion"""
DEVICE_IDLE = "device_idle"
"""from when the device last had work for certain to when it was found idle"""

PRODUCER_WORK = "producer_work"
"""another thread of the process makes what the training thread waits for; found by a look from
outside, not recorded"""
STARTUP = "startup"
"""before the training loop; found by the reader, not recorded"""
SHUTDOWN = "shutdown"
"""after the training loop; found by the reader, not recorded"""

WRITE_FAILED, QUOTA_REACHED = "writing", "recording quota reached"
"""how a line of ``PID.faults`` begins after which the process records nothing more"""


def join_name(role: str, label: str) -> str:
    """Return a line of ``PID.names``, without its end."""
    return f"{role}\t{label}".replace("\n", " ")


def split_name(line: str) -> tuple[str, str]:
    """Return the role and the label of a line of ``PID.names``."""
    role, tab, label = line.partition("\t")
    return (role, label) if tab else (NO_ROLE, line)
