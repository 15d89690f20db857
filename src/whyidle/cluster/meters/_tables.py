"""DuckDB, where a meter needs it."""

from __future__ import annotations

from types import ModuleType

from whyidle.errors import MissingExtraError


def import_duckdb() -> ModuleType:
    """The module.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        import duckdb  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise MissingExtraError(
            "duckdb is not installed.", why="It reads tables.", hint="pip install 'whyidle[fleet]'"
        ) from error
    return duckdb
