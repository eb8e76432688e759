"""Commands by themselves: what the recordings do not hold."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.kernel import Malformed, frames
from cometmq.protocol import (
    BINARY,
    JSON,
    SEND_BATCH,
    BadField,
    Command,
    GetRouteInfo,
    OffsetAnswer,
    PullMessage,
    QueryConsumerOffset,
    SendMessage,
    SendMessageV2,
)
from cometmq.protocol.codes import LANGUAGES, VERSION

ROUTE = (
    b'{"code":105,"extFields":{"topic":"TopicTest"},"flag":0,"language":"JAVA","opaque":1,'
    b'"serializeTypeCurrentRPC":"JSON","version":479}'
)


def read(header: bytes, codec: int = JSON) -> Command:
    return Command.read(frames.Frame(codec, header, b""))


def test_the_examples_of_the_specification_are_written_to_the_byte() -> None:
    ask = Command.request(GetRouteInfo(topic="TopicTest"), opaque=1)
    ask.language = "JAVA"
    assert ask.write() == bytes.fromhex("0000008700000083") + ROUTE
    ask.codec = BINARY
    assert ask.write() == bytes.fromhex(
        "0000002d01000029006900 01df000000010000000000000000000000140005746f70696300000009"
        "546f70696354657374"
    )
    no = Command.answer(BINARY, 1, 17, "no")
    assert no.write() == bytes.fromhex(
        "0000001b0100001700110001df0000000100000001000000026e6f00000000"
    )


@pytest.mark.spec("RN11")
def test_a_language_that_nobody_knows_fails_no_request() -> None:
    header = bytearray(Command(105, fields={"topic": "t"}, codec=BINARY).write()[8:])
    header[2] = 200
    for command in (
        read(bytes(header), BINARY),
        read(b'{"code":105,"language":"KLINGON","extFields":{"topic":"t"}}'),
    ):
        assert GetRouteInfo.read(command.fields).topic == "t"
        assert command.language == "OTHER"


def test_a_request_of_ours_says_who_we_are_and_an_answer_says_java() -> None:
    ask = Command.request(QueryConsumerOffset("g", "t", 0), opaque=7)
    assert (ask.code, ask.language, ask.version, ask.flag) == (14, "PYTHON", VERSION, 0)
    assert ask.oneway().is_oneway
    assert not ask.is_oneway
    answer = Command.answer(JSON, 7, 0, None, OffsetAnswer(5).fields(), b"x")
    assert (answer.language, answer.opaque, answer.is_answer, answer.body) == (
        "JAVA",
        7,
        True,
        b"x",
    )


@pytest.mark.parametrize("code", [*range(200050, 200057), 200151])
def test_a_code_that_does_not_fit_the_binary_header_is_found_again(code: int) -> None:
    ask = Command(code, codec=BINARY)
    [frame] = frames.split(ask.write(), 1 << 24)[0]
    assert struct.unpack_from(">h", frame.header)[0] == code & 0xFFFF
    assert Command.read(frame).code == code
    assert read(b'{"code":%d}' % code).code == code


def test_a_negative_response_code_survives_the_binary_header() -> None:
    answer = Command.answer(BINARY, 0, -1006)
    assert Command.read(frames.split(answer.write(), 1 << 24)[0][0]).code == -1006


@pytest.mark.parametrize("codec", [JSON, BINARY])
@given(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.dictionaries(*[st.text(st.characters(exclude_categories=["Cs"]))] * 2),
    st.integers(-(2**31), 2**31 - 1),
    st.sampled_from(LANGUAGES),
)
def test_whatever_a_command_holds_comes_back(
    codec: int, remark: str, fields: dict[str, str], opaque: int, language: str
) -> None:
    command = Command(105, opaque, 0, 317, language, remark or None, fields, codec, b"body")
    [frame] = frames.split(command.write(), 1 << 24)[0]
    assert Command.read(frame) == command


@given(st.binary(max_size=200), st.sampled_from([JSON, BINARY]))
def test_no_bytes_break_the_reader(header: bytes, codec: int) -> None:
    try:
        read(header, codec)
    except Malformed:
        pass


@given(st.data())
def test_no_damaged_header_breaks_the_reader(data: st.DataObject) -> None:
    for codec, header in ((JSON, ROUTE), (BINARY, Command(105, fields={"a": "b"})._as_binary())):
        damaged = bytearray(header)
        at = data.draw(st.integers(0, len(header) - 1))
        damaged[at] = data.draw(st.integers(0, 255))
        try:
            read(bytes(damaged), codec)
        except Malformed:
            pass


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b"[]",
        b"null",
        b"1",
        b'"x"',
        b'{"code":',
        b'{"code":105,,, ',
        b'{"code":99999999999}',
        b'{"code":"x"}',
        b'{"code":[]}',
        b'{"code":1e999}',
        b'{"code":1' + b"0" * 5000 + b"}",
        b'{"opaque":{}}',
        b'{"extFields":[]}',
        b'{"extFields":7}',
        b'{"code":1} x',
        b"\xff{}",
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
        b"{a:" * 5_000 + b"1" + b"}" * 5_000,
    ],
    ids=lambda header: repr(header[:20]),
)
def test_garbage_is_malformed(header: bytes) -> None:
    with pytest.raises(Malformed):
        read(header)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (b'{"code":1,"code":2}', (2, 0, "OTHER", {})),
        (b"{'code':1,'code':2}", (2, 0, "OTHER", {})),
        (b'{"code":1.0}', (1, 0, "OTHER", {})),
        (b'{"language":9}', (0, 0, "GO", {})),
        (b'{"language":99}', (0, 0, "OTHER", {})),
        (b'{"extFields":{"a":null,"b":true,"c":1.5,"d":{"e":1}}}',
         (0, 0, "OTHER", {"b": "true", "c": "1.5", "d": '{"e":1}'})),
        (b'\xef\xbb\xbf{"code":3}', (3, 0, "OTHER", {})),
        (b'{/*a*/"code":+3,"opaque":007}', (3, 7, "OTHER", {})),
        (rb'{"extFields":{"a":"\ud83d","b":"x"}}', (0, 0, "OTHER", {"a": "?", "b": "x"})),
        (rb'{"extFields":{"a":"\ud83d\ude00\x41"}}', (0, 0, "OTHER", {"a": "\U0001f600A"})),
    ],
)  # fmt: skip
def test_odd_headers_are_read(header: bytes, expected: tuple[object, ...]) -> None:
    command = read(header)
    assert (command.code, command.opaque, command.language, command.fields) == expected
    assert command.write()


def test_a_send_has_the_same_attributes_in_long_and_in_short_names() -> None:
    values = ("g", "t", "TBW102", 4, 0, 0, 1, 0, "TAGS\1a\2")
    long, short = SendMessage(*values).fields(), SendMessageV2(*values).fields()
    assert long["producerGroup"] == short["a"] == "g"
    assert sorted(short) == [*"abcdefghijkm"]
    assert SendMessageV2.read(short).group == SendMessage.read(long).group == "g"
    assert SendMessageV2(*values, broker="b").fields()["n"] == "b"
    batch = Command.request(SendMessageV2(*values, batch=True), code=SEND_BATCH)
    assert (batch.code, batch.fields["m"]) == (320, "true")


@pytest.mark.parametrize(
    "text", ["", " 1", "1 ", "0x1", "1.0", "٣", "2147483648", "1_0", "--1", "1\n"]
)
def test_a_number_is_digits_and_nothing_else(text: str) -> None:
    fields = {"consumerGroup": "g", "topic": "t", "queueId": text}
    with pytest.raises(BadField, match=r"queueId is .* expected a 32-bit integer"):
        QueryConsumerOffset.read(fields)


@pytest.mark.parametrize(("text", "truth"), [("TRUE", True), ("yes", False), ("", False)])
def test_true_is_true_in_any_case_and_nothing_else(text: str, truth: bool) -> None:
    fields = {"topic": "t", "acceptStandardJsonOnly": text}
    assert GetRouteInfo.read(fields).accept_standard_json_only is truth


def test_a_header_takes_its_positions_from_the_order_of_its_fields() -> None:
    pull = PullMessage("g", "t", 1, 2, 3, 4, 5, 6, "*", 7)
    assert (pull.subscription, pull.sub_version, pull.expression_type) == ("*", 7, None)
    with pytest.raises(AttributeError):
        pull.topic = "x"  # type: ignore[misc]
