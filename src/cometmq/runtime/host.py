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


def own_address() -> str:
    """The first address of this machine that others can reach; loopback where there is none."""
    # Connecting a datagram socket sends nothing: the system only chooses the way out, and with
    # it the address. The target is one that is set aside for documents (RFC 5737, RFC 3849).
    for family, target in ((socket.AF_INET, "192.0.2.1"), (socket.AF_INET6, "2001:db8::1")):
        try:
            with socket.socket(family, socket.SOCK_DGRAM) as probe:
                probe.connect((target, 9))
                host = str(probe.getsockname()[0])
        except OSError:
            continue
        if not is_loopback(host) and not is_wildcard(host):
            return host
    for *_, where in socket.getaddrinfo(socket.gethostname(), 0, type=socket.SOCK_STREAM):
        if not is_loopback(str(where[0])):
            return str(where[0])
    return "127.0.0.1"
