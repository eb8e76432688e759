"""AVG, equal to the original's on every recorded case."""

import json
from pathlib import Path

import pytest

from cometmq.client.routes import MessageQueue, average, java_order

CASES = [
    json.loads(line)
    for line in Path("tests/golden/consumer/allocation.jsonl").read_text("utf-8").splitlines()
]


def test_every_recorded_allocation_is_ours_too():
    checked = 0
    for case in CASES:
        if case["strategy"] != "AVG" or isinstance(case["result"], str):
            continue
        members = case["members"]
        for member, expected in case["result"].items():
            if isinstance(expected, str):  # an exception of the original's
                continue
            queues = list(range(len(case["queues"])))
            assert average(queues, members, member) == expected, case
            checked += 1
    assert checked > 100


def test_who_is_no_member_gets_nothing():
    assert average([1, 2, 3], ["a", "b"], "c") == []


def test_queues_are_sorted_by_number_and_names_by_their_utf16_units():
    queues = [MessageQueue("T", broker, n) for broker in ("b", "a") for n in (10, 9)]
    ordered = sorted(queues, key=lambda queue: queue.order)
    assert [(one.broker, one.queue_id) for one in ordered] == [
        ("a", 9),
        ("a", 10),
        ("b", 9),
        ("b", 10),
    ]
    # U+FF5E comes after U+1F600 in Java, whose units are D83D DE00, and before it in Python.
    assert sorted(["\uff5e", "\U0001f600"], key=java_order) == ["\U0001f600", "\uff5e"]


@pytest.mark.parametrize("members", [1, 2, 3, 7, 20])
def test_every_queue_has_one_owner(members):
    names = [f"m{n:02}" for n in range(members)]
    shares = [average(list(range(8)), names, name) for name in names]
    assert sorted(queue for share in shares for queue in share) == list(range(8))
