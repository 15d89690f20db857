"""Logs of nvidia-smi: ``--query-gpu=timestamp,index,utilization.gpu,memory.used --format=csv``.

``nvidia-smi:PATH``: files, a folder or a pattern; the node is the name of the file up to its first
dot, or ``NODE=PATH``. A table before the log, NUL bytes of a crashed machine and headers that are
repeated are skipped. A log without timestamps is refused: its period is not known.
"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Final

from whyidle.cluster.meters._columns import describe_version, list_files, quote_text
from whyidle.cluster.meters._csv_files import select_file
from whyidle.errors import InputError
from whyidle.model.fleet_rows import MeterTable, Progress, Window

ENDINGS: Final = (".csv", ".csv.gz", ".log", ".log.gz")


def read(where: str, window: Window, work: Path, progress: Progress) -> MeterTable:  # noqa: ARG001
    """All readings of the logs."""
    node, _, path = where.rpartition("=")
    files = list_files(path, ENDINGS)
    queries = [_select_log(file, node) for file in files]
    return MeterTable(
        query=" UNION ALL ".join(queries), is_parquet=False, version=describe_version(files)
    )


def _select_log(file: Path, node: str) -> str:
    skip, head = _find_header(file)
    if "timestamp" not in head:
        raise InputError(
            f"{file} has no timestamps.",
            why="Without them it is not known how long a reading stands for.",
            hint="nvidia-smi --query-gpu=timestamp,index,utilization.gpu,memory.used --format=csv",
        )
    query = select_file(file, skip)
    return f"SELECT * REPLACE ({quote_text(node)} AS node) FROM ({query})" if node else query


def _find_header(file: Path) -> tuple[int, str]:
    try:
        with gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb") as stream:
            # the header's table has about 20 lines, with 16 GPUs 60
            for number in range(200):
                line = stream.readline(1 << 16).replace(b"\0", b"").decode(errors="replace")
                if "utilization.gpu" in line:
                    return number, line
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"Cannot read {file}.", why=f"{error}.") from error
    raise InputError(
        f"{file} is not a log of nvidia-smi.", why="It has no header with utilization.gpu."
    )
