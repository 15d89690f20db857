"""Grow a real trace to a wanted size: its events repeated with shifted times and ids.

    python bench/grow.py small.pt.trace.json.gz big.json --megabytes 500

Writes gzip where the output's name ends in ``.gz``. One copy of the events is held in memory.
"""

from __future__ import annotations

import argparse
import gzip
import re
from functools import partial
from pathlib import Path
from typing import IO

LIST = re.compile(rb'"traceEvents"\s*:\s*\[|\A\s*\[')
NUMBER = re.compile(rb'("(?:ts|correlation|External id|id)"\s*:\s*)(\d+)(?=[.,\s}])')
ID_STRIDE = 10_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--megabytes", type=float, default=500, help="size of the JSON text")
    options = parser.parse_args()
    before, events, after = split(read(options.source))
    copies = max(1, round(options.megabytes * 1e6 / len(events)))
    create = partial(gzip.open, compresslevel=6) if options.target.suffix == ".gz" else open
    with create(options.target, "wb") as out:
        written = grow(out, before, events, after, copies)
    print(f"{copies} copies, {written / 1e6:.0f} MB of JSON in {options.target}")


def read(path: Path) -> bytes:
    data = path.read_bytes()
    return gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data


def split(text: bytes) -> tuple[bytes, bytes, bytes]:
    """Text up to the event list, its events, and its closing bracket with what follows."""
    found = LIST.search(text)
    if found is None:
        raise SystemExit("no traceEvents in the source")
    quoted = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]]')
    depth = 1
    for token in quoted.finditer(text, found.end()):
        depth += {b"[": 1, b"]": -1}.get(token[0], 0)
        if depth == 0:
            return text[: found.end()], text[found.end() : token.start()], text[token.start() :]
    raise SystemExit("the source's event list does not end")


def grow(out: IO[bytes], before: bytes, events: bytes, after: bytes, copies: int) -> int:
    """Write the copies; the number of bytes written."""
    parts = NUMBER.split(events.strip())
    numbers = list(map(int, parts[2::3]))
    is_time = [key.startswith(b'"ts"') for key in parts[1::3]]
    times = [number for number, time in zip(numbers, is_time, strict=True) if time]
    span = max(times) - min(times) + 1000
    written = out.write(before)
    for copy in range(copies):
        shift = [span * copy if time else ID_STRIDE * copy for time in is_time]
        parts[2::3] = [b"%d" % (n + by) for n, by in zip(numbers, shift, strict=True)]
        written += out.write((b",\n" if copy else b"") + b"".join(parts))
    return written + out.write(after)


if __name__ == "__main__":
    main()
