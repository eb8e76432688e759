"""Headers of sends and pulls on both kernels: recorded ones, odd ones, and what a send computes."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.kernels import SEND_FIELDS, Kernel

GOLDEN = Path(__file__).parents[2] / "golden" / "remoting"
LIMIT = 1 << 24
SHORT = dict(
    zip(
        "abcdefghijklm",
        (
            *("producerGroup", "topic", "defaultTopic", "defaultTopicQueueNums", "queueId"),
            *("sysFlag", "bornTimestamp", "flag", "properties", "reconsumeTimes", "unitMode"),
            *("maxReconsumeTimes", "batch"),
        ),
        strict=True,
    )
)
PULL = (
    *("consumerGroup", "topic", "queueId", "queueOffset", "maxMsgNums", "sysFlag"),
    *("commitOffset", "suspendTimeoutMillis", "subscription", "subVersion", "expressionType"),
    *("maxMsgBytes", "requestSource", "proxyFrowardClientId"),
)
PULL_TEXTS = {"consumerGroup", "topic", "subscription", "expressionType", "proxyFrowardClientId"}
FIELDS = {
    "a": "g",
    "b": "T",
    "c": "TBW102",
    "d": "4",
    "e": "1",
    "f": "0",
    "g": "1700000000000",
    "h": "7",
    "i": "TAGS\x01A\x02",
    "j": "2",
    "k": "false",
    "m": "false",
    "n": "broker-a",
}


def recorded(*codes: int) -> list[dict[str, Any]]:
    """The JSON headers of these requests, as clients really sent them."""
    return [
        line
        for name in ("send", "send-4.9.7", "consume", "consume-4.9.7")
        for line in map(json.loads, (GOLDEN / f"{name}.jsonl").read_text().splitlines())
        if line["direction"] == "request" and line["code"] in codes and "header" in line
    ]


def one(kernel: Kernel, header: str | bytes, body: bytes = b"") -> Any:
    """What a header is to `requests`."""
    raw = header if isinstance(header, bytes) else header.encode()
    (found,), _ = kernel.headers.requests(kernel.frames.join(0, raw, body), LIMIT)
    return found


def header(fields: object = FIELDS, **members: object) -> str:
    """A send's header in compact form; members set to None are left out."""
    whole = {"code": 310, "extFields": fields, "flag": 0, "opaque": 5, "version": 479} | members
    text = json.dumps({name: value for name, value in whole.items() if value is not None})
    return text.replace('": ', '":').replace(', "', ',"')


def test_recorded_sends_read_as_a_json_parser_reads_them(kernel: Kernel) -> None:
    read = 0
    for line in recorded(10, 310, 320):
        send = one(kernel, line["header"], b"body")
        if not isinstance(send, kernel.headers.Send):
            continue
        read += 1
        plain = json.loads(line["header"])
        fields = plain["extFields"]
        if plain["code"] != 10:
            fields = {SHORT.get(name, name): value for name, value in fields.items()}
        assert (send.code, send.opaque, send.flag, send.version) == tuple(
            plain[name] for name in ("code", "opaque", "flag", "version")
        )
        texts = (send.group, send.topic, send.default_topic, send.properties.decode())
        assert texts == tuple(
            fields.get(name, "")
            for name in ("producerGroup", "topic", "defaultTopic", "properties")
        )
        assert (
            send.default_topic_queues,
            send.queue_id,
            send.sys_flag,
            send.born_ms,
            send.message_flag,
        ) == tuple(
            int(fields[name])
            for name in ("defaultTopicQueueNums", "queueId", "sysFlag", "bornTimestamp", "flag")
        )
        assert send.reconsume_times == int(fields.get("reconsumeTimes", 0))
        assert send.max_reconsume_times == int(fields.get("maxReconsumeTimes", -1))
        assert (send.unit_mode, send.batch) == tuple(
            fields.get(name) == "true" for name in ("unitMode", "batch")
        )
        assert send.body == b"body"
    assert read >= 100


def test_recorded_pulls_read_as_a_json_parser_reads_them(kernel: Kernel) -> None:
    read = 0
    for line in recorded(11, 361):
        pull = one(kernel, line["header"])
        if not isinstance(pull, kernel.headers.Pull):
            continue
        read += 1
        plain = json.loads(line["header"])
        assert (pull.code, pull.opaque) == (plain["code"], plain["opaque"])
        assert pull.fields == tuple(
            value if value is None or name in PULL_TEXTS else int(value)
            for name, value in ((name, plain["extFields"].get(name)) for name in PULL)
        )
    assert read >= 15


def test_all_that_java_and_go_send_takes_the_fast_lane(kernel: Kernel) -> None:
    # Signatures and namespaces decide about permissions and names: they go the generic way.
    special = ("AccessKey", '"ns"', '"nsd"')
    for line in recorded(10, 310, 320, 11, 361):
        if line["provokedBy"].startswith(("java", "go")) and not any(
            word in line["header"] for word in special
        ):
            assert type(one(kernel, line["header"])).__name__ in ("Send", "Pull"), line["header"]


@pytest.mark.parametrize(
    "text",
    [
        header(),
        header().replace(":", " :\t").replace(",", "\r\n , "),
        header(remark="", language="GO", serializeTypeCurrentRPC="JSON"),
        header(version=None, opaque=None, flag=None),
        '{"extFields":' + json.dumps(FIELDS) + ',"code":310}',
        header().replace('"b"', '"\\u0062"').replace('"code"', '"\\u0063ode"'),
        header(FIELDS | {"k": "TRUE", "m": "tRue"}),
        header(FIELDS | {"e": "-2147483648", "g": "-9223372036854775808"}),
        header(FIELDS | {"i": ""}),
        header(FIELDS | {"b": "\u4e2d\U0001f600"}),
        header(FIELDS | {"b": "T"}).replace('"T"', '"\u4e2d\U0001f600"'),
        header(FIELDS | {"i": 'q\x01"\\/\b\f\n\r\t\x00\x02' + 5000 * "x"}),
    ],
)  # fmt: skip
def test_a_usual_header_is_a_send(kernel: Kernel, text: str) -> None:
    send = one(kernel, text, b"body")
    fields = json.loads(text)["extFields"]
    assert isinstance(send, kernel.headers.Send)
    assert (send.topic, send.properties.decode()) == (fields["b"], fields["i"])
    assert (send.queue_id, send.born_ms) == (int(fields["e"]), int(fields["g"]))
    assert (send.unit_mode, send.batch) == tuple(fields[k].lower() == "true" for k in "km")


ODD_VALUES = ("", " 1", "1 ", "+1", "01", "-0", "1.0", "1e3", "1_0", "x", "\u0661", "2147483648")


@pytest.mark.parametrize(
    "text",
    [
        *(header(FIELDS | {"e": value}) for value in (*ODD_VALUES, "-2147483649", "9" * 30)),
        *(header(FIELDS | {"g": v}) for v in ("9223372036854775808", "-9223372036854775809")),
        *(header({k: v for k, v in FIELDS.items() if k != name}) for name in "abcdefgh"),
        *(header(FIELDS | {name: ""}) for name in "abcd"),
        *(header(FIELDS | {"e": value}) for value in (1, True, None, ["1"], {"e": "1"})),
        *(header(code=value) for value in ("310", 310.0, True, 1 << 31, 311)),
        *(header(fields) for fields in ([], "x", None, 1)),
        header(flag=1),
        header(opaque="5"),
        header(remark=5),
        header(unknown="member"),
        header(FIELDS | {"Signature": "s"}),
        header(FIELDS | {"ns": "space"}),
        header(FIELDS | {"": "x"}),
        header(FIELDS | {"b": "\ud83d"}),
        header(FIELDS | {"b": "\ude00\ud83d"}),
        header().replace('"e":"1"', '"e":"1","e":"1"'),
        header().replace('"n":', '"n":"x","n":'),
        header().replace('"flag":0', '"flag":0,"flag":0'),
        header().replace('"opaque":5', '"opaque":05'),
        header().replace('"opaque":5', '"opaque":-'),
        header().replace('"g","b"', '"g" "b"'),
        header().replace('"T"', '"T\x01"'),
        header().replace('"T"', '"T\\x"'),
        header().replace('"T"', '"T\\u00g0"'),
        header().replace('"', "'"),
        header()[:-1] + ",}",
        header() + "x",
        header()[:-1],
        header().replace('"T"', '"T').replace(",", ""),
        "[" * 100_000,
        "null",
        "\ufeff" + header(),
    ],
)  # fmt: skip
def test_an_odd_header_stays_a_frame(kernel: Kernel, text: str) -> None:
    frame = one(kernel, text, b"body")
    assert isinstance(frame, kernel.frames.Frame)
    assert (frame.codec, frame.header, frame.body) == (0, text.encode(), b"body")


def test_bytes_that_are_no_utf_8_stay_a_frame(kernel: Kernel) -> None:
    for raw in (b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe4\xb8"):
        for place in (b'"T"', b'"broker-a"'):
            text = header().encode().replace(place, place[:-1] + raw + b'"')
            assert isinstance(one(kernel, text), kernel.frames.Frame)


def test_every_cut_of_a_header_stays_a_frame(kernel: Kernel) -> None:
    text = header(FIELDS | {"i": "\U0001f600\x01"}).encode()
    for end in range(1, len(text)):
        assert isinstance(one(kernel, text[:end]), kernel.frames.Frame)


def test_a_binary_header_stays_a_frame(kernel: Kernel) -> None:
    (frame,), _ = kernel.headers.requests(kernel.frames.join(1, header().encode()), LIMIT)
    assert isinstance(frame, kernel.frames.Frame)


def test_a_send_made_by_hand_is_like_one_that_was_read(kernel: Kernel) -> None:
    made = kernel.headers.Send(
        opaque=5, version=479, group="g", topic="T", default_topic="TBW102",
        default_topic_queues=4, queue_id=1, born_ms=1700000000000, message_flag=7,
        properties=b"TAGS\x01A\x02", reconsume_times=2, body=b"body",
    )  # fmt: skip
    read = one(kernel, header(), b"body")
    for name in SEND_FIELDS:
        assert getattr(made, name) == getattr(read, name), name
    assert (made.position, made.end, made.tag_hash) == (-1, -1, 65)


def test_a_rewritten_property_string_is_read_again(kernel: Kernel) -> None:
    send = kernel.headers.Send(properties=b"TAGS\x01A\x02UNIQ_KEY\x01one\x02")
    assert (send.tag_hash, send.unique_key) == (65, b"one")
    send.rewrite(b"UNIQ_KEY\x01two\x02")
    assert (send.marks, send.tag_hash, send.unique_key) == (kernel.headers.UNIQUE, 0, b"two")
    send.tag_hash = 1 << 40  # the delivery time of a delayed message
    assert send.tag_hash == 1 << 40
