"""The gate: who may ask what, before a handler sees it.

Only the administrative codes are guarded yet: a server that others can reach serves them to
this machine and to the addresses its operator named, to nobody else (design, "Security").
"""

import ipaddress

from cometmq.net import Address
from cometmq.protocol import ResponseCode
from cometmq.runtime import BadSetting
from cometmq.runtime.host import is_loopback
from cometmq.serving.handling import Handler, Refused


class Gate:
    """Lets a request through or says why not."""

    def __init__(self, bound: str, admin_allowed: tuple[str, ...] = ()) -> None:
        self._guarded = not is_loopback(bound)
        try:
            self._allowed = [ipaddress.ip_network(one, strict=False) for one in admin_allowed]
        except ValueError as error:
            raise BadSetting(
                f"adminAllowedAddresses={';'.join(admin_allowed)}: expected addresses or networks "
                f"like 10.0.0.7;10.1.0.0/16 ({error})"
            ) from None

    def check(self, handler: Handler, local: Address, peer: Address) -> None:
        """Refused where the peer may not ask this."""
        if handler.needs.kind != "admin" or not self._guarded or is_loopback(peer.host):
            return
        if peer.host == local.host:  # one address at both ends: the peer is this machine
            return
        if not any(ipaddress.ip_address(peer.host) in one for one in self._allowed):
            raise Refused(
                ResponseCode.NO_PERMISSION,
                f"{handler.name} is an administrative request, and {peer.host} is not allowed to "
                "make it: ask from the server's own machine, or name the address in "
                "adminAllowedAddresses",
            )
