"""People whom the team's proxy has signed in: who they are, from headers of a trusted address."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from whyidle.cluster.server.access import Credential
from whyidle.errors import UsageError

if TYPE_CHECKING:  # the command line reads the settings where the extra is missing, too
    from starlette.requests import HTTPConnection

UNIX: Final = "unix"
"""instead of an address: the socket at which the server listens, which its mode protects"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxySettings:
    """``addresses`` are those of the proxy, as addresses or networks, or ``unix``; headers from
    others are ignored. The defaults are the headers of oauth2-proxy. People in ``admin_groups``
    are administrators."""

    addresses: Sequence[str] = ()
    user_header: str = "X-Forwarded-User"
    groups_header: str = "X-Forwarded-Groups"
    admin_groups: Sequence[str] = ()

    def networks(self) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
        """The trusted networks.

        Raises:
            UsageError: one is no address.
        """
        try:
            wanted = [address for address in self.addresses if address != UNIX]
            return [ipaddress.ip_network(address) for address in wanted]
        except ValueError as error:
            raise UsageError(f"--proxy: {error}.", hint="--proxy 10.0.0.5, or unix") from error


class ProxyLogin:
    """Reads the headers of the proxy."""

    def __init__(self, settings: ProxySettings) -> None:
        self._settings, self._networks = settings, settings.networks()

    def is_trusted(self, connection: HTTPConnection) -> bool:
        """Whether a request comes from the proxy, by the address of the connection itself."""
        if connection.client is None or not connection.client.host:
            return UNIX in self._settings.addresses
        try:
            peer = ipaddress.ip_address(connection.client.host)
        except ValueError:
            return False
        return any(peer in network for network in self._networks)

    def identify(self, connection: HTTPConnection) -> Credential | None:
        """Who the trusted proxy says it is. A header that comes twice says nothing: a proxy that
        adds to what the browser sent would let anybody choose a name."""
        names = connection.headers.getlist(self._settings.user_header)
        lists = connection.headers.getlist(self._settings.groups_header)
        if len(names) != 1 or len(lists) > 1 or not names[0].strip():
            return None
        groups = tuple(filter(None, re.split(r"[,;|\s]+", lists[0]))) if lists else ()
        is_admin = not set(groups).isdisjoint(self._settings.admin_groups)
        return Credential(
            kind="session",
            name=names[0].strip(),
            role="admin" if is_admin else "viewer",
            digest="",
            created=0.0,
            groups=groups,
        )
