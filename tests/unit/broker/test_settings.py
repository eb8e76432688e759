"""Where a broker listens, and what it tells clients about that."""

import pytest

from cometmq.broker import BrokerSettings
from cometmq.runtime import BadSetting, is_loopback


def told(**given):
    settings = BrokerSettings(**given).checked()
    return settings.bound, settings.registered


def test_it_listens_on_loopback_unless_told_otherwise():
    assert told() == ("127.0.0.1", "127.0.0.1")
    assert told(bind_address="127.0.0.2") == ("127.0.0.2", "127.0.0.2")
    assert told(broker_ip1="127.0.0.2") == ("127.0.0.2", "127.0.0.2")
    assert told(broker_ip1="127.0.0.2", bind_address="0.0.0.0") == ("0.0.0.0", "127.0.0.2")


@pytest.mark.parametrize(
    ("wildcard", "mark", "loopback"), [("0.0.0.0", ".", "127."), ("::", ":", "::1")]
)
def test_a_wildcard_is_registered_by_an_address_of_its_own_family(wildcard, mark, loopback):
    bound, registered = told(bind_address=wildcard)
    assert bound == wildcard
    assert mark in registered
    assert not is_loopback(registered) or registered.startswith(loopback)


def test_an_address_of_nobody_here_needs_one_to_listen_on():
    with pytest.raises(BadSetting, match="is no address of this machine"):
        told(broker_ip1="203.0.113.9")
    assert told(broker_ip1="203.0.113.9", bind_address="0.0.0.0") == ("0.0.0.0", "203.0.113.9")


@pytest.mark.parametrize("bound", ["127.0.0.1", "::"])
def test_what_is_told_has_to_be_covered_by_what_is_listened_on(bound):
    with pytest.raises(BadSetting, match="listened on"):
        told(broker_ip1="127.0.0.2", bind_address=bound)
