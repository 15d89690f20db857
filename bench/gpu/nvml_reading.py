"""Reads the GPUs through whyidle's NVML source a few times, keeps the readings, and says what came.

    python -m bench.gpu.nvml_reading FILE [--reads 5] [--imitated]

A process of its own, as a driver may hang or crash. ``--imitated`` puts a stand-in for NVML in the
place of the binding, so that the same lines run on a machine without a GPU. Prints JSON.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from emulator import fake_nvml
from whyidle.machine.sources import _nvml_device, nvml
from whyidle.model.live.telemetry import Target, split_key
from whyidle.model.live.telemetry_lines import TelemetryWriter, header_line, source_line

PERIOD_S = 0.3
"""between reads: GPM wants a tenth of a second at least"""


def read_repeatedly(file: Path, reads: int, environ: Mapping[str, str]) -> dict[str, Any]:
    """Read the source, and write its readings as a recording holds them.

    Raises:
        InputError: there is nothing to read.
    """
    reader = nvml.open(Target(environ=environ))
    writer, rows, took = TelemetryWriter(), [], []
    values: dict[str, float] = {}
    for _ in range(reads):
        begin = time.perf_counter_ns()
        reading = reader.read()
        took.append((time.perf_counter_ns() - begin) / 1e3)
        rows.append(writer.row_lines("nvml", begin, reading))
        values |= {key: value for key, value in reading.items() if value is not None}
        time.sleep(PERIOD_S)
    facts, missing = dict(reader.facts), dict(reader.missing)
    reader.close()
    head = header_line(time.perf_counter_ns(), time.time_ns())
    file.write_bytes(head + source_line("nvml", facts, missing) + b"".join(rows))
    gpm = sorted({split_key(key)[0] for key in values} & set(_nvml_device.METRICS))
    return {
        "facts": facts,
        "signals": sorted({split_key(key)[0] for key in values}),
        "gpm_signals": gpm,
        "missing": {name: absent.reason for name, absent in missing.items()},
        "read_us_median": statistics.median(took),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--reads", type=int, default=5)
    parser.add_argument("--imitated", action="store_true")
    args = parser.parse_args()
    environ: Mapping[str, str] = os.environ
    if args.imitated:
        sys.modules["pynvml"], environ = fake_nvml.module([fake_nvml.training()]), {}
    print(json.dumps(read_repeatedly(args.file, args.reads, environ)))


if __name__ == "__main__":
    main()
