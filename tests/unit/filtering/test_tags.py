"""Tag filters: what the original makes of a subscription's text, and what matches."""

import json
from pathlib import Path
from typing import Any

import pytest

from cometmq.filtering import BadExpression, Tags

LINES = (Path(__file__).parents[2] / "golden" / "consumer" / "names.jsonl").read_text(
    encoding="utf-8"
)
SUBSCRIPTIONS = [
    one for one in map(json.loads, LINES.splitlines()) if one["kind"] == "subscription"
]


@pytest.mark.parametrize("one", SUBSCRIPTIONS, ids=lambda one: repr(one["text"]))
def test_a_text_means_the_tags_that_the_original_takes_it_for(one: dict[str, Any]) -> None:
    if "error" in one:
        with pytest.raises(BadExpression, match="subString split error"):
            Tags.parse(one["text"])
        return
    expected = json.loads(one["json"])
    tags = Tags.parse(one["text"])
    assert tags.text == expected["subString"]
    assert sorted(tags.tags) == sorted(expected["tagsSet"])  # Java's order is that of hashes
    assert sorted(tags.codes) == sorted(expected["codeSet"])


@pytest.mark.parametrize("text", [None, "", "*"])
def test_nothing_and_a_star_mean_everything(text: str | None) -> None:
    tags = Tags.parse(text)
    assert tags.hashes is None
    assert tags.matches(None)
    assert tags.matches("created")


def test_tags_are_wanted_by_hash_first_and_by_text_in_the_end() -> None:
    tags = Tags.parse("Aa || paid")
    assert tags.tags == ("Aa", "paid")
    assert tags.hashes == frozenset(tags.codes)
    assert tags.codes[0] == Tags.parse("BB").codes[0]
    assert tags.matches("Aa")
    for other in ("BB", "aa", "Aa || paid", "*", "", None):
        assert not tags.matches(other)


def test_blanks_between_bars_want_nothing_and_a_star_in_a_list_is_a_tag() -> None:
    assert Tags.parse("|| ||").hashes == frozenset()
    assert not Tags.parse("|| ||").matches("x")
    assert not Tags.parse("*||TagA").matches("x")
