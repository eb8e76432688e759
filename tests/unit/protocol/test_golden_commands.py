"""Every recorded header, by both codecs and by its type; README of the records, rules 1 and 4."""

import json
from dataclasses import replace
from typing import Any

import pytest

from cometmq.kernel import Malformed, frames, headers
from cometmq.protocol import (
    HEADERS,
    BadField,
    Command,
    Header,
    HeartBeatAnswer,
    OffsetAnswer,
    PullAnswer,
    PullMessage,
    RegisterBrokerAnswer,
    ResponseCode,
    ResponseHeader,
    SendAnswer,
)
from tests.unit.protocol.samples import FOLDER, Sample, lines, recorded

LIMIT = 16 << 20
# What the README exempts from equality: a key that stands twice, languages that nobody knows.
TWICE, UNKNOWN_LANGUAGE = "h1-805", ("h1-800", "h1-802")
ANSWERS: dict[int, type[ResponseHeader]] = {
    **dict.fromkeys((10, 310, 320), SendAnswer),
    **dict.fromkeys((11, 361), PullAnswer),
    **dict.fromkeys((14, 30, 31), OffsetAnswer),
    34: HeartBeatAnswer,
    103: RegisterBrokerAnswer,
}
# Fields that mean nothing here yet, and what a hook or a raw program added.
UNDECLARED = {"ns", "nsd", "oway", "lo", "ReqT", "AccessKey", "Signature", "OnsChannel", "zz", "x"}
# Raw programs sent headers with a field missing or wrong; what the original did with them differs.
BROKEN = {
    "h1-3439": "the custom field topicFilterType is 'ZZ', expected SINGLE_TAG or MULTI_TAG",
    "h1-3171": "the custom field clientID is null",
    "h1-3153": "the custom field queueOffset is null",
    "h1-710": "the custom field topic is null",
    "h1-712": "the custom field topic is null",
    "n2-270": "the custom field brokerName is null",
    "n2-272": "the custom field brokerName is null",
    "h1-3189": "the custom field offset is null",
    "h1-6346": "the custom field queueId is 'abc', expected a 32-bit integer",
    "h1-6348": "the custom field queueId is null",
    "h1-2981": "the custom field e is null",
    "h1-2967": "the custom field b is null",
    "h1-2969": "the custom field e is null",
    "h1-2971": "the custom field e is 'abc', expected a 32-bit integer",
    "h1-2973": "the custom field e is ' 1', expected a 32-bit integer",
    "h1-2977": "the custom field a is null",
    "h1-2979": "the custom field topic is null",
    "h1-3181": "the custom field offset is null",
}


def rewritten(frame: frames.Frame) -> frames.Frame:
    """The frame after a way through Command."""
    return frames.split(Command.read(frame).write(), LIMIT)[0][0]


def in_order(header: bytes) -> str:
    """The text of a JSON header with its extFields sorted, dropped where empty."""
    members = json.loads(header)
    fields = members.pop("extFields", None)
    if fields:
        members["extFields"] = dict(sorted(fields.items()))
    return json.dumps({"extFields": None} | members, separators=(",", ":"))


def test_961_json_headers_come_back_in_the_same_letters_and_the_others_in_the_same_members() -> (
    None
):
    equal = 0
    for sample in recorded():
        if sample.frame.codec == 1:
            continue
        again = rewritten(sample.frame)
        assert again.body == sample.frame.body
        if in_order(again.header) == in_order(sample.frame.header):
            equal += 1
        else:
            assert Command.read(again) == Command.read(sample.frame), sample
    assert equal >= 961


def entries(header: bytes) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """What stands before the entries of a binary header, and those sorted."""
    remark = int.from_bytes(header[15:19], "big")
    at, found = 23 + remark, []
    while at < len(header):
        key_end = at + 2 + int.from_bytes(header[at : at + 2], "big")
        end = key_end + 4 + int.from_bytes(header[key_end : key_end + 4], "big")
        found.append((header[at:key_end], header[key_end:end]))
        at = end
    return header[: 19 + remark], sorted(found)


def test_binary_headers_come_back_in_the_same_bytes() -> None:
    samples = [sample for sample in recorded() if sample.frame.codec == 1]
    assert len(samples) > 150
    for sample in samples:
        again = rewritten(sample.frame)
        if sample.exchange == TWICE or sample.exchange in UNKNOWN_LANGUAGE:
            assert Command.read(again) == Command.read(sample.frame), sample
        else:
            assert entries(again.header) == entries(sample.frame.header), sample


def header_of(sample: Sample, command: Command) -> type[Header] | None:
    """The class that this sample's fields are of."""
    if sample.direction == "request":
        return HEADERS.get(command.code)
    carries = command.fields and command.code in (0, *range(10, 13), *range(19, 22))
    return ANSWERS.get(sample.code, ResponseHeader) if sample.code in HEADERS and carries else None


def test_typed_headers_hold_every_field_that_was_recorded() -> None:
    seen, refused = set(), {}
    for sample in recorded():
        command = Command.read(sample.frame)
        kind = header_of(sample, command)
        if kind is None:
            continue
        seen.add((sample.code, sample.direction))
        try:
            header = kind.read(command.fields)
        except BadField as why:
            refused[sample.exchange] = str(why)
            continue
        written = header.fields()
        for name, text in command.fields.items():
            if name in written:
                boolean = text.lower() in ("true", "false", "yes")
                assert written[name] == (str(text.lower() == "true").lower() if boolean else text)
            elif sample.by != "raw: answers of codes nothing else asked":
                assert name in UNDECLARED or "raw" in sample.by, (sample, name)
        assert kind.read(written) == header
    assert refused == BROKEN
    assert {code for code, _ in seen} == set(HEADERS)


def test_every_header_requires_and_checks_what_the_original_declares() -> None:
    schema = json.loads((FOLDER / "schema.json").read_text())
    fields_of = {one["code"]: one["fields"] for one in schema["headers"].values()}
    fields_of |= {320: fields_of[310], 361: fields_of[11]}
    bits = {"Integer": "32-bit", "int": "32-bit", "Long": "64-bit", "long": "64-bit"}
    for code, kind in HEADERS.items():
        declared = {one.name: one for one in kind.table}
        valid = dict.fromkeys(declared, "1") | {"topicFilterType": "SINGLE_TAG"}
        for field in fields_of.get(code, ()):
            name = field["name"]
            if field["type"] in bits:
                with pytest.raises(
                    BadField, match=f"{name} is '9+', expected a {bits[field['type']]}"
                ):
                    declared[name].meaning("9" * 20)
            missing = {one: text for one, text in valid.items() if one != name}
            # Of 15 the original itself answers a missing offset, with code 29.
            answered = (code, name) == (15, "commitOffset")
            if field["required"] and "default" not in field and not answered:
                with pytest.raises(BadField, match=f"the custom field {name} is null"):
                    kind.read(missing)
            else:
                assert name not in missing or kind.read(missing)


def test_the_kernel_reads_sends_and_pulls_as_the_generic_codec_does() -> None:
    read = 0
    for sample in recorded():
        if sample.direction == "response":
            continue
        one = sample.frame
        (found,), _ = headers.requests(frames.join(one.codec, one.header, one.body), LIMIT)
        if isinstance(found, frames.Frame):
            continue
        command = Command.read(one)
        generic: Any = HEADERS[command.code].read(command.fields)
        read += 1
        if isinstance(found, headers.Pull):
            assert PullMessage(*found.fields) == replace(generic, broker=None)
            continue
        for name in ("group", "topic", "default_topic", "queue_id", "sys_flag", "born_ms"):
            assert getattr(found, name) == getattr(generic, name)
        assert found.default_topic_queues == generic.default_topic_queues
        assert found.properties == (generic.properties or "").encode()
        assert found.batch == generic.batch
    assert read > 100


@pytest.mark.spec("RN11", "RN12")
@pytest.mark.parametrize("one", [*lines("lenient.jsonl")], ids=lambda one: one["name"])
def test_what_the_original_is_lenient_about_is_read(one: dict[str, Any]) -> None:
    command = Command.read(frames.Frame(0, one["header"].encode(), b""))
    if one["result"].startswith("accepted"):
        assert (command.code, command.fields["topic"]) == (105, "H1Topic")
    elif "request type 0" in one["result"]:
        assert command.code == 0
    else:
        assert (command.code, command.opaque, command.fields) == (105, 0, {})


@pytest.mark.parametrize("one", [*lines("refused.jsonl")], ids=lambda one: one["name"])
def test_what_the_original_refuses_is_malformed(one: dict[str, Any]) -> None:
    data = bytes.fromhex(one["frameHex"])
    if one["result"] == "connection closed":
        with pytest.raises(Malformed):
            [Command.read(frame) for frame in frames.split(data, LIMIT)[0]]
    elif "answered as code 0" in one["result"]:
        with pytest.raises(Malformed) as caught:
            frames.split(data, LIMIT)
        first = Command.read(caught.value.before[0])  # type: ignore[arg-type]
        assert (first.code, first.opaque) == (0, 0)
    else:  # incomplete: what the kernel does then is not decided here
        assert "waits" in one["result"] or "nothing happens" in one["result"]


def test_response_codes_have_the_names_of_the_original() -> None:
    schema = json.loads((FOLDER / "schema.json").read_text())
    assert {one.name: one.value for one in ResponseCode}.items() <= schema["responseCodes"].items()
    assert HEADERS.keys() <= set(schema["requestCodes"].values())
