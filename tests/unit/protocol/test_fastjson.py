"""The dialect of JSON: what is read, and the three forms that are written."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cometmq.protocol import (
    BadBody,
    ConsumerOffsetWrapper,
    SubscriptionGroupWrapper,
    TopicConfigWrapper,
    fastjson,
)
from cometmq.protocol.fastjson import Key, dumps, loads

GOLDEN = Path(__file__).parents[2] / "golden"

texts = st.text()
values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts | st.integers(), inner),
    max_leaves=20,
)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("{0:1,-1:2}", {0: 1, -1: 2}),
        ('{"0":1}', {"0": 1}),
        ("{a:1,$b_2:2}", {"a": 1, "$b_2": 2}),
        ("{'a':'it''s'}", None),
        (r"{'a':'it\'s'}", {"a": "it's"}),
        ("[1,2,]", [1, 2]),
        ("[,1,,2,]", [1, 2]),
        ("{,a:1,,b:2,}", {"a": 1, "b": 2}),
        ("{a:1,a:2}", {"a": 2}),
        ("/*x*/[1]//y", [1]),
        ("\ufeff[1]", [1]),
        ("[+1,01,1.,.5,-1e3,NaN,undefined,7L]", [1, 1, 1.0, 0.5, -1000.0, None, None, 7]),
        ('["a\nb\tc"]', ["a\nb\tc"]),
        (r'["\x41\v\u00e9\ud83d\ude00"]', ["A\v\u00e9\U0001f600"]),
        ('{{"b":1,"a":[2]}:3}', {Key('{"b":1,"a":[2]}'): 3}),
        ("[1 2]", None),
        ("{a 1}", None),
        ("{1", None),
        ("[1] 2", None),
        ("", None),
        ("/*", None),
        ('"\\q"', None),
        ("1abc", None),
        ("[tru]", None),
    ],
)
def test_the_dialect_is_read(text: str, value: Any) -> None:
    if value is None:
        with pytest.raises(BadBody):
            loads(text)
    else:
        assert loads(text) == value
        assert loads(text.encode()) == value


def test_whatever_is_strict_json_is_read_as_others_read_it() -> None:
    for text in ('{"a":[1,2.5,"x\\u20ac",null,true,{}],"b":{"c":[]}}', "[]", '"x"', "7"):
        assert loads(text) == json.loads(text) == fastjson._Reader(text, True).read()


@pytest.mark.parametrize("opening", ["[", "{a:", '{"a":', "[{a:", "{{"])
def test_no_depth_ends_in_a_recursion_error(opening: str) -> None:
    with pytest.raises(BadBody):
        loads(opening * 50_000)
    deep: Any = []
    for _ in range(5_000):
        deep = [deep]
    with pytest.raises(ValueError, match="deeper"):
        dumps(deep)


def test_braces_in_strings_are_no_depth() -> None:
    assert loads('["' + "[{" * 5_000 + '"]') == ["[{" * 5_000]
    assert loads("['" + "[{" * 5_000 + "']") == ["[{" * 5_000]


@given(values)
def test_what_is_written_is_read_again(value: Any) -> None:
    def clean(one: Any) -> Any:
        """Without nulls in maps, which are not written, and with ? for half a pair."""
        if isinstance(one, dict):
            return {clean(k): clean(v) for k, v in one.items() if v is not None}
        if isinstance(one, str):
            return one.encode(errors="replace").decode()
        return [*map(clean, one)] if isinstance(one, list) else one

    if "$ref" not in repr(value):
        assert clean(loads(dumps(value))) == clean(value)
        assert clean(loads(dumps(value, pretty=True))) == clean(value)


@given(st.text(alphabet="{}[]\"':,.0123456789+-eEuxtrnalsf\\/* $\n\u00e9", max_size=60))
def test_no_text_breaks_the_reader(text: str) -> None:
    try:
        loads(text)
    except BadBody:
        pass


def test_long_numbers_and_comments_take_no_time() -> None:
    for text in (
        "[" * 101 + '"' + '\\"' * 300_000,
        "1" * 300_000,
        "[" + "1" * 300_000 + "x",
        "/*" * 300_000,
        "[" + "//\n" * 300_000,
    ):
        with pytest.raises(BadBody):
            loads(text)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ({0: "10.0.0.1:10911", 1: "b"}, '{0:"10.0.0.1:10911",1:"b"}'),
        ({"a": None, "b": [None], "c": {}, "e": False}, '{"b":[null],"c":{},"e":false}'),
        ('"\\/\b\t\n\f\r\x0b\x00', r'"\"\\/\b\t\n\f\r\u000B\u0000"'),
        ("\x7f\x9f\u2028\u2029", r'"\u007F\u009F\u2028\u2029"'),
        ("\u00e9\u00a0'", "\"\u00e9\u00a0'\""),
        ({Key('{"queueId":0,"topic":"T"}'): 7}, '{{"queueId":0,"topic":"T"}:7}'),
        ("\ud83d", '"?"'),
        ([0.0, -0.0, 1e7, 1e-7, 0.001], "[0.0,-0.0,1.0E7,1.0E-7,0.001]"),
        ([9999999.0, 1.5e300, 1e23, 0.5], "[9999999.0,1.5E300,1.0E23,0.5]"),
        ([-123456789.125], "[-1.23456789125E8]"),
        ([float("nan"), float("inf")], "[null,null]"),
    ],
)  # fmt: skip
def test_the_default_form(value: Any, text: str) -> None:
    assert dumps(value).decode() == text


def test_the_strict_form_quotes_and_sorts_keys_and_escapes() -> None:
    value = {10: "a/b", 2: "\u00e9\U0001f600", "x": 2**53, "b": -(2**53) + 1}
    assert dumps(value, strict=True) == (
        rb'{"b":-9007199254740991,"x":"9007199254740992","2":"\u00E9\uD83D\uDE00","10":"a\/b"}'
    )
    assert dumps({Key('{"a":1}'): 2}, strict=True) == rb'{"{\"a\":1}":2}'


def test_files_are_written_as_the_original_writes_them() -> None:
    for name in ("consumerOffset.json", "consumerOrderInfo.json", "messageRequestMode.json"):
        data = (GOLDEN / "consumer" / name).read_bytes()
        value = loads(data)
        for topics in value.get("groupTopicMap", {}).values():
            assert isinstance(topics, list)
        value["groupTopicMap"] = {
            k: tuple(v) for k, v in value.get("groupTopicMap", {}).items()
        } or None
        assert dumps(value, pretty=True) == data
    folder = GOLDEN / "store" / "5.3.3-main-clean"
    for name, kind in (
        ("topics.json", TopicConfigWrapper),
        ("subscriptionGroup.json", SubscriptionGroupWrapper),
        ("consumerOffset.json", ConsumerOffsetWrapper),
    ):
        data = (folder / name).read_bytes()
        assert kind.read(data).write(pretty=True) == data, name
    data = (folder / "delayOffset.json").read_bytes()
    assert dumps(loads(data), pretty=True) == data


def test_references_stand_for_what_was_written_before_them() -> None:
    assert loads('{"a":[{"x":1}],"b":{"$ref":"$.a[0]"}}') == {"a": [{"x": 1}], "b": {"x": 1}}
    assert loads(r'{"a.b":1,"c":{"$ref":"$.a\\.b"}}') == {"a.b": 1, "c": 1}
    assert loads('[{"a":1},{"$ref":"$[0]"}]') == [{"a": 1}] * 2
    for circle in (
        '{"a":{"$ref":"$"}}',
        '{"a":{"$ref":"@"}}',
        '[[{"$ref":".."}]]',
        '{"a":{"$ref":"$.b"},"b":[1]}',
    ):
        assert "None" in str(loads(circle))
    with pytest.raises(BadBody, match="references"):
        loads('[{"$ref":"$"}' * 1 + ',{"$ref":"$"}' * 2_000 + "]")


@pytest.mark.parametrize("end", ['"k":{{"$ref":"$.x60"}:1}', '"k":{"$ref":"$.x60"}'])
def test_references_to_references_cannot_stand_for_more_than_fits(end: str) -> None:
    pairs = (f'"x{n}":[{{"$ref":"$.x{n - 1}"}},{{"$ref":"$.x{n - 1}"}}]' for n in range(1, 61))
    with pytest.raises(BadBody, match="references"):
        loads(f'{{"x0":[1],{",".join(pairs)},{end}}}')


def test_references_to_object_keys_are_those_of_the_original() -> None:
    bodies = {}
    for line in (GOLDEN / "consumer" / "names.jsonl").read_text().splitlines():
        one = json.loads(line)
        if one["kind"] == "body":
            bodies[one["name"]] = one["json"]
    queue = Key('{"brokerName":"b","queueId":0,"topic":"T"}')
    status = loads(bodies["GetConsumerStatusBody"])
    assert status == {"consumerTable": {"c": {queue: 7}}, "messageQueueTable": {queue: 7}}
    assert queue in loads(bodies["ConsumerRunningInfo"])["mqTable"]
    for name, text in bodies.items():
        if "$ref" not in text:
            assert dumps(loads(text)).decode() == text, name
