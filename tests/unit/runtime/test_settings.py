"""Settings: the original's keys as typed values, and plain words about those that do nothing."""

import enum
from dataclasses import dataclass

import pytest

from cometmq.runtime import BadSetting, settings


class Flush(enum.Enum):
    SYNC_FLUSH = "SYNC_FLUSH"
    ASYNC_FLUSH = "ASYNC_FLUSH"


@dataclass(frozen=True)
class Model:
    broker_name: str = "broker-a"
    broker_ip1: str | None = None
    listen_port: int = 10911
    auto_create_topic_enable: bool = True
    flush_disk_type: Flush = Flush.SYNC_FLUSH
    admin_allowed_addresses: tuple[str, ...] = ()


def read(text):
    return settings.read(Model, settings.parse_properties(text))


def test_keys_are_read_under_the_originals_names():
    model = read(
        "# a comment\n\n! another\n brokerName = b \nbrokerIP1=10.0.0.1\nlistenPort=1\n"
        "autoCreateTopicEnable=FALSE\nflushDiskType=ASYNC_FLUSH\n"
        "adminAllowedAddresses=10.0.0.1;10.1.0.0/16"
    )
    assert model == Model("b", "10.0.0.1", 1, False, Flush.ASYNC_FLUSH, ("10.0.0.1", "10.1.0.0/16"))


def test_what_is_not_set_keeps_its_default():
    assert read("unknown=1") == Model()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("listenPort=x", "listenPort=x: expected a whole number"),
        ("autoCreateTopicEnable=yes", "autoCreateTopicEnable=yes: expected true or false"),
        ("flushDiskType=FAST", "flushDiskType=FAST: expected SYNC_FLUSH or ASYNC_FLUSH"),
    ],
)
def test_a_value_that_does_not_parse_says_what_was_expected(text, expected):
    with pytest.raises(BadSetting, match=expected):
        read(text)


def test_keys_without_effect_are_listed_once_with_the_nearest_known_name():
    values = {"zebra": "2", "listenPrt": "1", "brokerName": "b"}
    said = settings.without_effect(values, settings.keys(Model))
    assert said == (
        "these keys have no effect here (yet): listenPrt (did you mean listenPort?), zebra"
    )
    assert settings.without_effect({"brokerName": "b"}, settings.keys(Model)) is None


@dataclass(frozen=True)
class Other:
    most: int | None = None
    what: dict[str, str] | None = None


@pytest.mark.parametrize(
    ("key", "text", "kind", "value"),
    [
        ("most", "7", int | None, 7),
        ("on", "True", bool, True),
        ("on", "false", bool, False),
        ("name", "", str, ""),
        ("hosts", "a;b", tuple[str, ...], ("a", "b")),
        ("hosts", "a, b ;c\td", tuple[str, ...], ("a", "b", "c", "d")),
        ("hosts", ";", tuple[str, ...], ()),
    ],
)
def test_a_value_is_read_as_its_type_wants(key, text, kind, value):
    assert settings.convert(key, text, kind) == value


def test_a_type_that_no_text_stands_for_is_a_bug_of_ours():
    with pytest.raises(TypeError, match="no way to read a setting of type"):
        settings.read(Other, {"what": "x"})


@pytest.mark.parametrize(
    ("field", "key"),
    [
        ("name", "name"),
        ("broker_name", "brokerName"),
        ("broker_ip1", "brokerIP1"),
    ],
)
def test_a_field_has_the_originals_name(field, key):
    assert settings.key_of(field) == key


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("a=b=c", {"a": "b=c"}),
        ("a", {"a": ""}),
        ("=b", {"": "b"}),
        ("#a=b", {}),
        ("  ! a=b", {}),
        ("a=1\na=2", {"a": "2"}),
        ("a=#b", {"a": "#b"}),
    ],
)
def test_a_line_is_read_as_the_original_does(line, found):
    assert settings.parse_properties(line) == found
