"""The machine's own addresses, as far as a server must know them to tell others where it is."""

import ipaddress
import socket

from cometmq.runtime.errors import BadSetting


def is_loopback(host: str) -> bool:
    """Only this machine itself can reach this address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_wildcard(host: str) -> bool:
    """The address stands for every address of this machine."""
    return host in ("", "0.0.0.0", "::")


def numeric(key: str, host: str) -> str:
    """The address that a name stands for, IPv4 before IPv6; BadSetting where it has none."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except OSError as error:
        raise BadSetting(
            f"{key}={host}: this name has no address here ({error.strerror}); give a numeric one"
        ) from None
    return str(min(found, key=lambda one: one[0] != socket.AF_INET)[4][0])


def is_own(host: str) -> bool:
    """Whether a server of this machine could be bound to this address."""
    try:
        found = socket.getaddrinfo(host, 0, type=socket.SOCK_STREAM)
    except OSError:
        return False
    for family, kind, _, _, where in found:
        with socket.socket(family, kind) as trial:
            try:
                trial.bind(where)
            except OSError:
                continue
            return True
    return False


def own_address(wildcard: str = "0.0.0.0") -> str:
    """The first address by which others reach a server of this machine that is bound to this
    wildcard; loopback where there is none. `::` takes no IPv4 here, and 0.0.0.0 never IPv6."""
    v6 = ":" in wildcard
    family = socket.AF_INET6 if v6 else socket.AF_INET
    try:
        # Connecting a datagram socket sends nothing: the system only chooses the way out, and
        # with it the address. The target is set aside for documents (RFC 5737, RFC 3849).
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect(("2001:db8::1" if v6 else "192.0.2.1", 9))
            found = [str(probe.getsockname()[0])]
    except OSError:
        found = []
    try:
        named = socket.getaddrinfo(socket.gethostname(), 0, family, socket.SOCK_STREAM)
        found += [str(where[0]) for *_, where in named]
    except OSError:
        pass  # a machine need not know its own name
    others = (one for one in found if not is_loopback(one) and not is_wildcard(one))
    return next(others, "::1" if v6 else "127.0.0.1")
