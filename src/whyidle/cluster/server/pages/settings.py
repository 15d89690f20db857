"""How the server is set up. It is changed on the command line only."""

from __future__ import annotations

from whyidle.cluster.server.site import Page, Question
from whyidle.model.diagnosis import Document
from whyidle.version import __version__


class StoreSettings(Document, frozen=True, kw_only=True):
    """One store."""

    name: str
    folder: str
    runs: int


class ServerSettings(Document, frozen=True, kw_only=True):
    """The command line's options, and what stores hold. Tokens: ``whyidle serve tokens``."""

    whyidle: str
    stores: list[StoreSettings]
    state: str
    listen: str
    names: list[str]
    is_open: bool
    fleet: str | None


def _read_settings(question: Question) -> ServerSettings:
    site, settings = question.site, question.site.settings
    counts = site.index.count_runs("store")
    return ServerSettings(
        whyidle=__version__,
        stores=[
            StoreSettings(name=name, folder=str(store.root.absolute()), runs=counts.get(name, 0))
            for name, store in site.stores.items()
        ],
        state=str(settings.state.absolute()),
        listen=settings.listen,
        names=list(settings.names),
        is_open=settings.is_open,
        fleet=str(settings.fleet) if settings.fleet else None,
    )


PAGE = Page(
    path="/settings",
    title="Settings",
    template="settings.html",
    document=ServerSettings,
    read=_read_settings,
    section="settings",
)
