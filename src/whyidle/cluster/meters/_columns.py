"""Names and units of columns: the same table serves CSV, Parquet and metrics of Prometheus."""

from __future__ import annotations

import glob
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Final, NamedTuple

from whyidle.errors import InputError, MissingExtraError
from whyidle.model.fleet_rows import READING_COLUMNS
from whyidle.model.node_lists import short_name_sql


class _Source(NamedTuple):
    field: str
    factor: float = 1.0


_PERCENT: Final = 0.01
_MIB: Final = float(1 << 20)
NAMES: Final[Mapping[str, _Source]] = {
    name: _Source(field, factor)
    for field, factor, names in (
        ("time_ms", 1, "time_ms timestamp time t ts timestamp_anon datetime date time_s"),
        ("node", 1, "node hostname host machine machineid machine_id instance kubernetes_node"),
        ("gpu", 1, "gpu gpu_index index gpu_id minor_number"),
        ("slice", 1, "gpu_i_id"),
        ("uuid", 1, "uuid gpu_uuid"),
        ("job", 1, "job job_id jobid slurm_job slurmjobid hpc_job pod exported_pod container_ip"),
        ("owner", 1, "owner user namespace exported_namespace"),
        ("busy", 1, "busy gpu_busy whyidle_gpu_busy_ratio dcgm_fi_prof_gr_engine_active"),
        ("busy", 1, "gpu:busy:ratio gpu:busy:ratio5m"),
        ("busy", _PERCENT, "gpu_util utilization_gpu utilization.gpu utilization_gpu_percent"),
        ("busy", _PERCENT, "gpu_utilization duty_cycle gpu_duty_cycle dcgm_fi_dev_gpu_util util"),
        ("sm", 1, "sm sm_active whyidle_gpu_sm_active_ratio dcgm_fi_prof_sm_active"),
        ("sm", 1, "gpu:sm:ratio5m"),
        ("memory_bytes", 1, "memory_bytes memory_used_bytes gpu_memory_used_bytes"),
        ("memory_bytes", 1, "whyidle_gpu_memory_used_bytes gpu:memory:bytes5m"),
        ("memory_bytes", _MIB, "memory.used memory_used_mib fb_used dcgm_fi_dev_fb_used"),
        ("capacity_bytes", 1, "capacity_bytes memory_total_bytes whyidle_gpu_memory_size_bytes"),
        ("capacity_bytes", _MIB, "memory.total memory_total_mib"),
        ("power_w", 1, "power_w power power.draw whyidle_gpu_power_watts dcgm_fi_dev_power_usage"),
        ("power_w", 1, "gpu:power:watts5m"),
    )
    for name in names.split()
}
"""name in lower case, without its unit in brackets -> what it is, and the factor to our unit"""
METRICS: Final = ("busy", "sm", "memory_bytes", "capacity_bytes", "power_w")


def recognise_column(name: str) -> _Source | None:
    """What a column holds; None: nothing that is read."""
    return NAMES.get(name.partition("[")[0].strip().lower())


def recognise_file(path: Path) -> _Source | None:
    """The metric that a file of one ``value`` column holds, by its name; the longest that fits."""
    stem = path.name.lower()
    fitting = [name for name, source in NAMES.items() if name in stem and source.field in METRICS]
    return NAMES[max(fitting, key=len)] if fitting else None


def list_files(where: str, endings: Sequence[str]) -> list[Path]:
    """The files that a path, a folder, a pattern or a list of these with commas names.

    Raises:
        InputError: there is none.
    """
    found: list[Path] = []
    for part in filter(None, where.split(",")):
        path = Path(part)
        if path.is_dir():
            found += sorted(p for end in endings for p in path.rglob(f"*{end}"))
        else:
            found += sorted(map(Path, glob.glob(part, recursive=True)))  # noqa: PTH207
    if not found:
        raise InputError(f"There is no file {where or '(none was named)'}.")
    if unreadable := next((path for path in found if not path.is_file()), None):
        raise InputError(f"Cannot read {unreadable}.", why="It is not a file.")
    return found


def describe_version(files: Sequence[Path]) -> str:
    """Text that changes when one of the files does."""
    stats = [(path, path.stat()) for path in files]
    return ";".join(f"{path.resolve()}:{s.st_size}:{s.st_mtime_ns}" for path, s in stats)


def quote_text(text: object) -> str:
    """A literal of SQL."""
    return "'" + str(text).replace("'", "''") + "'"


def select_columns(
    columns: Mapping[str, str], relation: str, path: Path, types: Mapping[str, str] | None = None
) -> str:
    """The query that turns a relation into readings.

    Args:
        columns: name of a column in the file -> its expression.
        relation: what it is read from.
        path: the file, which may name its metric and its node.
        types: DuckDB's type of each column (of Parquet); None: all are texts.

    Raises:
        InputError: no column of time, or of a metric, is known.
    """
    found: dict[str, str] = {}
    for name, expression in columns.items():
        source = recognise_column(name)
        if source is None and name.strip().lower() == "value":
            source = recognise_file(path)
        if source is not None and source.field not in found:
            found[source.field] = _convert(source, expression, (types or {}).get(name))
    if "time_ms" not in found or not set(METRICS) & set(found):
        known = "time" if "time_ms" not in found else "busy, gpu_util or memory_bytes"
        raise InputError(
            f"{path} has no readings of GPUs.",
            why=f"It has no column such as {known}.",
            hint="Name the columns time, node, gpu, busy (0-1) and memory_bytes, for instance.",
        )
    if "slice" in found and "gpu" in found:
        found["gpu"] = f"concat_ws('/', {found['gpu']}, {found['slice']})"
    if not {"node", "job", "uuid"} & set(found):
        found["node"] = quote_text(path.name.partition(".")[0])
    wanted = ", ".join(
        f"CAST({found.get(name, 'NULL')} AS {kind}) AS {name}"
        for name, kind in READING_COLUMNS.items()
    )
    return f"SELECT {wanted} FROM {relation}"


def _convert(source: _Source, expression: str, kind: str | None) -> str:
    if source.field == "time_ms":
        return _convert_time(expression, kind)
    if source.field == "node":
        return short_name_sql(expression)
    if source.field not in METRICS:
        return f"nullif(trim(CAST({expression} AS VARCHAR)), '')"
    number = (
        f"TRY_CAST({expression} AS DOUBLE)"
        if kind
        else f"TRY_CAST(regexp_extract({expression}, '^\\s*([-+0-9.eE]+)', 1) AS DOUBLE)"
    )
    scaled = number if source.factor == 1 else f"{number} * {source.factor}"
    limit = "1e15" if READING_COLUMNS[source.field] == "BIGINT" else "1e9"
    return f"CASE WHEN abs({number}) < {limit} THEN {scaled} END"


def _convert_time(expression: str, kind: str | None) -> str:
    """Numbers are seconds or, from 10^11 on, milliseconds; texts are ISO, local without a zone."""
    if kind == "BIGINT":
        return f"CASE WHEN {expression} < 100000000000 THEN 1000 ELSE 1 END * {expression}"
    if kind is not None and kind.startswith("TIMESTAMP"):
        return f"epoch_ms({expression})"
    text = f"CAST({expression} AS VARCHAR)"
    number = f"TRY_CAST({text} AS DOUBLE)"
    moment = f"TRY_CAST(replace({text}, '/', '-') AS TIMESTAMPTZ)"
    return (
        f"CASE WHEN {number} BETWEEN 0 AND 1e11 THEN CAST(round({number} * 1000) AS BIGINT) "
        f"WHEN {number} BETWEEN 1e11 AND 2.5e14 THEN CAST({number} AS BIGINT) "
        f"WHEN {number} IS NULL THEN epoch_ms({moment}) END"
    )


def import_duckdb() -> ModuleType:
    """The module.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import duckdb  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise MissingExtraError(
            "duckdb is not installed.",
            why="It is needed to read tables.",
            hint="pip install 'whyidle[fleet]'",
        ) from error
    return duckdb
