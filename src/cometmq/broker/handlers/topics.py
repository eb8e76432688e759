"""Topics made, changed and looked at by operators."""

from cometmq.broker.groups import Groups
from cometmq.broker.topics import Topics
from cometmq.message import names
from cometmq.protocol import GetTopicConfig, ResponseCode, TopicConfig, UpdateAndCreateTopic
from cometmq.serving import ADMIN, Answer, Outcome, Wait, handles, refuse

SAVE_MS = 5_000


@handles(UpdateAndCreateTopic, needs=ADMIN)
def update_and_create_topic(topics: Topics, ask: UpdateAndCreateTopic, now_ms: int) -> Outcome:
    """Let this topic be as said here."""
    why = names.topic_fault(ask.topic, by_broker=True)
    if why is None and topics.is_system(ask.topic):
        why = f"The topic[{ask.topic}] is conflict with system topic."
    if why is None and ask.attributes:
        why = f"the attributes {ask.attributes!r}: attributes of topics are not built yet"
    if why is not None:
        return refuse(ResponseCode.INVALID_PARAMETER, why)
    config = TopicConfig(
        topic_name=ask.topic,
        read_queue_nums=ask.read_queue_nums,
        write_queue_nums=ask.write_queue_nums,
        perm=ask.perm,
        topic_filter_type=ask.topic_filter_type,
        topic_sys_flag=ask.topic_sys_flag or 0,
        order=ask.order,
    )
    return when_saved(topics, topics.put(config), now_ms)


def when_saved(kept: Topics | Groups, change: int, now_ms: int) -> Outcome:
    """The answer to an operator whose change must survive what happens next."""

    def decide(now_ms: int) -> Outcome:
        if kept.saved >= change:
            return Answer()
        if kept.failure is None and now_ms < until:
            return Wait(kept.saves, until, decide)
        late = "the change is not on disk yet; it may be lost if the broker stops"
        return refuse(ResponseCode.SYSTEM_ERROR, kept.failure or late)

    until = now_ms + SAVE_MS
    kept.save()  # the same change may have failed before, and is no news to the table
    return decide(now_ms)


@handles(GetTopicConfig, needs=ADMIN)
def get_topic_config(topics: Topics, ask: GetTopicConfig) -> Outcome:
    """How is this topic configured here?"""
    config = topics.find(ask.topic)
    if config is None:
        why = f"No topic in this broker. topic: {ask.topic}"
        return refuse(ResponseCode.TOPIC_NOT_EXIST, why)
    return Answer(body=config.write())
