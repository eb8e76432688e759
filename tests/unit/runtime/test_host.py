"""The machine's own addresses: what only it can reach, what is its own, what others are told."""

import ipaddress

import pytest

from cometmq.runtime import BadSetting, own_address
from cometmq.runtime.machine import is_loopback, is_own, is_wildcard, numeric


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("10.0.0.1", False),
        ("0.0.0.0", False),
        ("::", False),
        ("example", False),
    ],
)
def test_only_loopback_is_for_this_machine_alone(host, expected):
    assert is_loopback(host) is expected


@pytest.mark.parametrize(
    ("host", "expected"),
    [("", True), ("0.0.0.0", True), ("::", True), ("127.0.0.1", False), ("::1", False)],
)
def test_wildcards_stand_for_every_address(host, expected):
    assert is_wildcard(host) is expected


@pytest.mark.parametrize(
    ("host", "expected"),
    [("127.0.0.1", True), ("0.0.0.0", True), ("203.0.113.9", False)],
)
def test_an_address_is_its_own_if_it_can_be_listened_on(host, expected):
    assert is_own(host) is expected


def test_a_name_stands_for_its_address_and_ipv4_comes_first():
    assert numeric("key", "localhost") == "127.0.0.1"
    assert numeric("key", "10.0.0.7") == "10.0.0.7"
    assert numeric("key", "::1") == "::1"
    with pytest.raises(BadSetting, match="key=no such name: this name has no address here"):
        numeric("key", "no such name")


@pytest.mark.parametrize(("wildcard", "version"), [("0.0.0.0", 4), ("::", 6)])
def test_the_address_that_others_are_told_is_no_wildcard_and_of_its_family(wildcard, version):
    found = ipaddress.ip_address(own_address(wildcard))
    assert found.version == version
    assert not found.is_unspecified
