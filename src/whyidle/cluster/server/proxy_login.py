"""People whom the team's proxy has signed in: who they are, from headers of a trusted address."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from whyidle.cluster.server.access import Credential
from whyidle.errors import UsageError

if TYPE_CHECKING:  # the command line reads the settings where the extra is missing, too
    from starlette.requests import HTTPConnection

Network = ipaddress.IPv4Network | ipaddress.IPv6Network
UNIX: Final = "unix"
"""instead of an address: the socket at which the server listens, which its mode protects"""


def read_networks(addresses: Sequence[str]) -> list[Network]:
    """Addresses and networks, without ``unix``. Raises UsageError."""
    try:
        return [ipaddress.ip_network(address) for address in addresses if address != UNIX]
    except ValueError as error:
        raise UsageError(f"--proxy: {error}.", hint="--proxy 10.0.0.5, or unix") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class ProxyLogin:
    """Reads the headers of a proxy in ``networks``, or at the socket; those of others are ignored.
    The default is the header of oauth2-proxy."""

    networks: Sequence[Network] = ()
    has_socket: bool = False
    user_header: str = "X-Forwarded-User"

    def is_trusted(self, connection: HTTPConnection) -> bool:
        """Whether a request comes from the proxy, by the address of the connection itself."""
        if connection.client is None or not connection.client.host:
            return self.has_socket
        try:
            peer = ipaddress.ip_address(connection.client.host)
        except ValueError:
            return False
        return any(peer in network for network in self.networks)

    def identify(self, connection: HTTPConnection) -> Credential | None:
        """Who the trusted proxy says it is. A header that comes twice says nothing: a proxy that
        adds to what the browser sent would let anybody choose a name."""
        names = connection.headers.getlist(self.user_header)
        if len(names) != 1 or not names[0].strip():
            return None
        return Credential(kind="session", name=names[0].strip(), digest="", created=0.0)
