"""Identification of files that are no trace, with advice."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from whyidle.errors import BrokenTraceError, InputError, NotATraceError
from whyidle.readers._files.byte_stream import ByteStream

HEAD_BYTES = 1 << 16
_EXPORT = "Export a trace with prof.export_chrome_trace('trace.json.gz')."
_SNAPSHOT = (
    "A memory snapshot shows what fills the memory, not why the device idles. View it at "
    "pytorch.org/memory_viz, and export a trace with prof.export_chrome_trace('trace.json.gz')."
)
_TRAINING = "Record the training with torch.profiler, and pass the trace."

# what it looks like, how it begins, what to do
_MAGIC: tuple[tuple[str, bytes, str], ...] = (
    ("a Git LFS pointer: the repository holds the file itself elsewhere",
     rb"version https://git-lfs\.github\.com/spec/",
     "Run `git lfs pull` in the clone, or download the file from the repository's page."),
    ("an SQLite database", rb"SQLite format 3\0", _EXPORT),
    ("an HTML page", rb"\s*<(?i:!doctype html|html|head|script)",
     "Download the file itself, not its page."),
    ("a safetensors checkpoint", rb'.{8}\{"', _TRAINING),
    ("a Python pickle, such as a memory snapshot or a checkpoint", rb"\x80[\x02-\x05]", _SNAPSHOT),
    ("a 7z, xz, zstd or bzip2 archive", rb"7z\xbc\xaf|\xfd7zXZ|\x28\xb5\x2f\xfd|BZh[1-9]",
     "Unpack it first."),
    ("a tar archive", rb"(?s:.{257}ustar)", "Unpack it first, and pass the folder."),
    ("a zip archive inside", rb"PK\x03\x04", "Unpack it first."),
    ("a Perfetto trace (protobuf)",
     rb"(?=.{1,64}?[\0-\x08])\n.{1,3}?(?:[\x18\x32\x40\x50]|\x8a\x02|\xea\x02|\xca\x05|\xe2\x03)",
     "Pass the trace of PyTorch's profiler itself (JSON), not one that a viewer saved, or "
     "convert it: traceconv json FILE trace.json."),
    ("a TensorBoard event file", rb"(?s:.{8}.{4}.{0,24}brain\.Event:)", _EXPORT),
)  # fmt: skip
_JSON: tuple[tuple[str, bytes, str], ...] = (
    ("an execution trace (PyTorch, Chakra): it holds operators and their order, but no times "
     "on the device",
     rb'"schema"\s*:\s*"\d[^"]*(?:chakra)?[^"]*"[^}]{0,400}"nodes"|execution_trace',
     "Pass the trace that torch.profiler exported beside it (export_chrome_trace)."),
    ("a result of rocprofv3, AMD's profiler of kernels", rb'"rocprofiler-sdk-tool"', _EXPORT),
    ("a memory snapshot", rb'"(?:segments|device_traces|blocks_by_segment)"', _SNAPSHOT),
    ("a diagnosis of whyidle itself", rb'"whyidle/', "Render it with `whyidle report`."),
)  # fmt: skip
_RECORD_IT = "Record the training with torch.profiler as well, and pass its trace."
_CHROME: tuple[tuple[str, bytes, str], ...] = (
    ("a timeline of Horovod, which shows collectives but not the device",
     rb"NEGOTIATE_(?:ALLREDUCE|ALLGATHER|BROADCAST|ALLTOALL|REDUCESCATTER)", _RECORD_IT),
    ("the compiler's log of events (torch.compile), which does not show the device",
     rb'"cat"\s*:\s*"dynamo_timed"', f"View it with tlparse. {_RECORD_IT}"),
    ("a timeline of TensorFlow 1 (tf.python.client.timeline)",
     rb'"/job:[^"]*"(?s:.*)"cat"\s*:\s*"Op"|"cat"\s*:\s*"Op"(?s:.*)"/job:',
     "Record with tf.profiler.experimental.start (TensorFlow 2), and pass the folder."),
)  # fmt: skip
"""Chrome traces of tools that record no device"""
_TEXT: tuple[tuple[str, bytes, str], ...] = (
    (
        "nvidia-smi output",
        rb"NVIDIA-SMI|utilization\.gpu|temperature\.gpu|power\.draw|(?m:^# gpu\s+(?:pwr|sm|pid))",
        "It shows that the GPU idles, not why; record the training with torch.profiler.",
    ),
    (
        "the table that key_averages() prints: sums per operator, without times",
        rb"Self (?:CPU|CUDA|XPU|NPU) (?:%|time|total)",
        "Sums do not show when the GPU idles. Export the recording itself: "
        "prof.export_chrome_trace('trace.json.gz').",
    ),
    ("a Python script", rb"(?m:^(?:import|from|def|class) \w+)", _TRAINING),
    ("a table of comma-separated values", rb"^[^\n{}\[\]]*,[^\n]*\r?\n[^\n]*,", _EXPORT),
)


_NAMED: tuple[tuple[str, str, str], ...] = (
    (
        "an Nsight Systems report, which only Nsight Systems can read",
        r"\.(nsys-rep|qdrep)$",
        "Export it: nsys export --type sqlite -o {export} {name}, and pass {export}.",
    ),
    (
        "an unfinished Nsight Systems report",
        r"\.qdstrm$",
        "Import it with QdstrmImporter {name}, export the report that it writes (nsys export "
        "--type sqlite -o {export} REPORT), and pass {export}.",
    ),
    (
        "a result of TensorFlow's profiler, not its recording",
        r"\.(input_pipeline|overview_page|tensorflow_stats|kernel_stats|memory_profile|pod_viewer)"
        r"\.pb$",
        "Pass the profile beside it, which ends with .xplane.pb.",
    ),
    ("an Nsight Compute report", r"\.ncu-rep$", "Pass a PyTorch trace of the same run."),
)
"""what it is by the end of its name, how it ends, what to do"""
REPORT = re.compile("|".join(ending for _, ending, _ in _NAMED), re.IGNORECASE)
"""ends of the names of reports that only another program can read"""


def identify_file(head: bytes, name: str = "") -> tuple[str, str]:
    """Return (what the file looks like, what to do next) for a file that is no trace."""
    for description, ending, hint in _NAMED:
        if re.search(ending, name, re.IGNORECASE):
            export = shlex.quote(f"{name.rpartition('.')[0]}.sqlite")
            return description, hint.format(name=shlex.quote(name), export=export)
    if not head:
        return "empty", "Let the profiler finish writing it, or record it again."
    for description, pattern, hint in _MAGIC:
        if re.match(pattern, head, re.DOTALL):
            return description, hint
    if not any(head):
        return "full of zero bytes, as after a crash or a full disk", "Record the trace again."
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if text[:1] in (b"{", b"["):
        return next(
            (
                (description, hint)
                for description, pattern, hint in (*_CHROME, *_JSON)
                if re.search(pattern, text)
            ),
            ("JSON of another kind", _EXPORT),
        )
    for description, pattern, hint in _TEXT:
        if re.search(pattern, head[:8192]):
            return description, hint
    return _bytes_or_prose(head[:4096])


def identify_chrome_trace(head: bytes) -> tuple[str, str] | None:
    """Return what a Chrome trace without the profiler's events is, and what to do, if known."""
    matches = (row for row in _CHROME if re.search(row[1], head))
    return next(((what, hint) for what, _, hint in matches), None)


def _bytes_or_prose(head: bytes) -> tuple[str, str]:
    if head[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "UTF-16 text", "Save it as UTF-8."
    printable = sum(byte >= 32 or byte in b"\t\r\n\x1b" for byte in head)
    if printable < 0.95 * len(head):
        return "a binary file of an unknown kind", _EXPORT
    return "a plain-text log", _TRAINING


def head_of(path: Path, member: str | None = None) -> bytes:
    """Return the first decompressed bytes; fewer if compression is damaged.

    Raises:
        InputError: the file cannot be opened.
    """
    stream = ByteStream(path, member)
    try:
        return stream.read(HEAD_BYTES)
    finally:
        stream.close()


def not_a_trace(path: Path, member: str | None, broken: str | None) -> InputError:
    """Return the error for a file without an event list."""
    shown = f"{path}!{member}" if member else str(path)
    head = head_of(path, member)
    has_header = re.search(rb'"(?:schemaVersion|deviceProperties|distributedInfo)"', head)
    if has_header or (broken and head[:1] in (b"", b"{", b"[")):
        return BrokenTraceError(
            f"No event could be read from {shown}.",
            why=f"{broken[0].upper()}{broken[1:]}." if broken else "It ends before its event list.",
            hint="Copy the file again, or let the profiler finish before copying it.",
        )
    description, hint = identify_file(head, member or str(path))
    why = "It is empty." if description == "empty" else f"It looks like {description}."
    return NotATraceError(f"{shown} is not a recording that whyidle reads.", why=why, hint=hint)
