"""AVG, equal to the original's on every recorded case."""

import json
from pathlib import Path

import pytest

from cometmq.client.routes import MessageQueue, Route, average, java_order
from cometmq.protocol import BrokerData, QueueData, TopicRouteData

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
    at, queues = {0: "127.0.0.1:10911"}, {"perm": 6, "read_queue_nums": 11, "write_queue_nums": 11}
    told = TopicRouteData(
        broker_datas=[BrokerData(broker_addrs=at, broker_name=name) for name in "ba"],
        queue_datas=[QueueData(broker_name=name, **queues) for name in "ba"],
    )
    route = Route.of("T", told)
    assert route.to_read == tuple(MessageQueue("T", name, n) for name in "ab" for n in range(11))
    assert route.to_write == route.to_read
    # U+FF5E comes after U+1F600 in Java, whose units are D83D DE00, and before it in Python.
    assert sorted(["\uff5e", "\U0001f600"], key=java_order) == ["\U0001f600", "\uff5e"]


@pytest.mark.parametrize("members", [1, 2, 3, 7, 20])
def test_every_queue_has_one_owner(members):
    names = [f"m{n:02}" for n in range(members)]
    shares = [average(list(range(8)), names, name) for name in names]
    assert sorted(queue for share in shares for queue in share) == list(range(8))
