"""Opens the routes of alerts, each on a thread behind a queue."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from whyidle import catalog
from whyidle.errors import UsageError
from whyidle.machine.watch.publisher_queue import RETRY_S, PublisherThread

if TYPE_CHECKING:
    from whyidle.model.live.alert import Route


def check_routes(tables: Iterable[Mapping[str, object]]) -> None:
    """Check the settings of routes, without delivering anything.

    Raises:
        WhyidleError: a route does not exist, or does not understand its settings.
    """
    for table in tables:
        load_route(table).open(table).close(None)


def load_route(table: Mapping[str, object]) -> Any:
    """The module of a route.

    Raises:
        UsageError: there is none.
    """
    kind = str(table.get("kind", ""))
    known = catalog.plugin_names("alerts.routes")
    if kind not in known:
        raise UsageError(f"There is no route {kind!r}.", why=f"Known: {', '.join(known)}.")
    return catalog.plugin_module("alerts.routes", kind)


def open_routes(
    tables: Iterable[Mapping[str, object]], on_stdout: Route | None = None
) -> list[PublisherThread]:
    """Open the routes of a file of alerts. ``on_stdout`` takes the place of the route to standard
    output, where that shows something else.

    Raises:
        UsageError: the settings of one are wrong.
    """
    return [open_route(table, on_stdout) for table in tables]


def open_route(table: Mapping[str, object], on_stdout: Route | None = None) -> PublisherThread:
    """Open a route behind a queue.

    Raises:
        UsageError: its settings are wrong.
    """
    kind, module = str(table.get("kind", "")), load_route(table)
    route = module.open(table)
    if kind == "stdout" and on_stdout is not None:
        route = on_stdout

    def tell(text: str) -> None:
        print(f"whyidle: alerts by {text}", file=sys.stderr)

    return PublisherThread(kind, route, module.FAULTS, tell, RETRY_S)
