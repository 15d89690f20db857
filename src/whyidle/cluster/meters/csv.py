"""Readings of GPUs as CSV (``csv:FILE``, a folder, a pattern, or a list with commas).

Files may be compressed with gzip or zstd. Columns are known by name (time, node, gpu, busy,
gpu_util, memory_bytes, power_w, ..., and the names of nvidia-smi and DCGM); a file with one column
``value`` holds the metric that its own name says.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from whyidle.cluster.meters._columns import describe_version, list_files
from whyidle.cluster.meters._csv_files import select_file
from whyidle.model.fleet_rows import MeterTable, Progress, Window

ENDINGS: Final = (".csv", ".csv.gz")


def read(where: str, window: Window, work: Path, progress: Progress) -> MeterTable:  # noqa: ARG001
    """All readings of the files."""
    files = list_files(where, ENDINGS)
    queries = [select_file(path) for path in files]
    return MeterTable(
        query=" UNION ALL ".join(queries), is_parquet=False, version=describe_version(files)
    )
