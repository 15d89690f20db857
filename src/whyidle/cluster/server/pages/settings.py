"""How the server is set up. It is changed on the command line only."""

from __future__ import annotations

from whyidle.cluster.server.access import Role
from whyidle.cluster.server.site import Page, Question
from whyidle.model.diagnosis import Document
from whyidle.version import __version__


class StoreSettings(Document, frozen=True, kw_only=True):
    """One store."""

    name: str
    folder: str
    runs: int


class TokenSettings(Document, frozen=True, kw_only=True):
    """One token, without its secret. ``created`` is a Unix time."""

    name: str
    role: Role
    created: float


class ServerSettings(Document, frozen=True, kw_only=True):
    """``tokens`` is None for who may not change anything."""

    whyidle: str
    stores: list[StoreSettings]
    state: str
    listen: str
    names: list[str]
    is_open: bool
    fleet: str | None
    tokens: list[TokenSettings] | None


def _read_settings(question: Question) -> ServerSettings:
    site, settings = question.site, question.site.settings
    counts = site.index.count_runs("store")
    viewer = question.viewer
    tokens = None
    if viewer.may("change"):
        tokens = [
            TokenSettings(name=one.name, role=one.role, created=one.created)
            for one in site.access.list_tokens()
        ]
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
        tokens=tokens,
    )


PAGE = Page(
    path="/settings",
    title="Settings",
    template="settings.html",
    document=ServerSettings,
    read=_read_settings,
    section="settings",
)
