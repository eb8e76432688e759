"""Names of topics and groups: the valid ones, and those of the system (spec 02 5.4, 07 ch. 19)."""

import re

TEMPLATE_TOPIC = "TBW102"
RETRY, DLQ, SYSTEM = "%RETRY%", "%DLQ%", "rmq_sys_"
LONGEST_TOPIC, LONGEST_RETRY_TOPIC, LONGEST_GROUP = 127, 255, 255
_ALLOWED = "^[%|a-zA-Z0-9_-]+$"
_NAME = re.compile(r"[%|a-zA-Z0-9_-]+\Z")

# Nobody but the broker writes to these.
FORBIDDEN_TOPICS = frozenset(
    """
    SCHEDULE_TOPIC_XXXX RMQ_SYS_TRANS_HALF_TOPIC RMQ_SYS_TRANS_OP_HALF_TOPIC
    TRANS_CHECK_MAX_TIME_TOPIC SELF_TEST_TOPIC OFFSET_MOVED_EVENT
    """.split()  # noqa: SIM905
)
# Nobody but the broker makes or deletes these.
SYSTEM_TOPICS = FORBIDDEN_TOPICS.union(
    (TEMPLATE_TOPIC, "BenchmarkTest", "RMQ_SYS_TRACE_TOPIC", "CHECKPOINT_TOPIC")
)
SYSTEM_GROUPS = frozenset(
    """
    TOOLS_CONSUMER FILTERSRV_CONSUMER SELF_TEST_C_GROUP SELF_TEST_P_GROUP CID_ONS-HTTP-PROXY
    CID_ONSAPI_PERMISSION CID_ONSAPI_OWNER CID_ONSAPI_PULL __MONITOR_CONSUMER SCHEDULE_CONSUMER
    CLIENT_INNER_PRODUCER PID_SMSC
    """.split()  # noqa: SIM905
)


def retry_topic(group: str) -> str:
    """Where messages wait that this group could not consume."""
    return RETRY + group


def is_system_topic(topic: str) -> bool:
    """Whether the broker alone makes and deletes this topic."""
    return topic in SYSTEM_TOPICS or topic.startswith(SYSTEM)


def is_system_group(group: str) -> bool:
    """Whether this group is of the system and hidden from lists."""
    return group in SYSTEM_GROUPS or group.startswith("CID_RMQ_SYS_")


def may_send_to(topic: str) -> bool:
    """Whether clients may send to this topic."""
    # The original lets them write to `rmq_sys_` ones too, which breaks it.
    return topic not in FORBIDDEN_TOPICS and not topic.startswith(SYSTEM)


def topic_fault(topic: str, *, by_broker: bool = False) -> str | None:
    """Why this is no name of a topic, in words that tools match on; a broker's lack the number."""
    if not topic.strip():
        return "The specified topic is blank."
    if not _NAME.match(topic):
        return f"The specified topic contains illegal characters, allowing only {_ALLOWED}"
    longest = LONGEST_RETRY_TOPIC if topic.startswith((RETRY, DLQ)) else LONGEST_TOPIC
    if len(topic) <= longest:
        return None
    number = "" if by_broker else f" {longest}"
    return f"The specified topic is longer than topic max length{number}."


def group_fault(group: str) -> str | None:
    """Why this is no name of a group."""
    if not group.strip():
        return "the specified group is blank"
    if len(group) > LONGEST_GROUP:
        return f"the specified group is longer than group max length {LONGEST_GROUP}."
    if not _NAME.match(group):
        return f"the specified group[{group}] contains illegal characters, allowing only {_ALLOWED}"
    return None
