"""What operators ask: topics and consumer groups made, changed and looked at."""

from cometmq.broker.tables import Groups, Topics
from cometmq.message import names
from cometmq.protocol import (
    Command,
    GetTopicConfig,
    ResponseCode,
    SubscriptionGroupConfig,
    TopicConfig,
    UpdateAndCreateSubscriptionGroup,
    UpdateAndCreateTopic,
)
from cometmq.serving import ADMIN, Answer, Outcome, Refused, Wait, handles

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
        raise Refused(ResponseCode.INVALID_PARAMETER, why)
    config = TopicConfig(
        topic_name=ask.topic,
        read_queue_nums=ask.read_queue_nums,
        write_queue_nums=ask.write_queue_nums,
        perm=ask.perm,
        topic_filter_type=ask.topic_filter_type,
        topic_sys_flag=ask.topic_sys_flag or 0,
        order=ask.order,
    )
    return _when_saved(topics, topics.put(config), now_ms)


@handles(GetTopicConfig, needs=ADMIN)
def get_topic_config(topics: Topics, ask: GetTopicConfig) -> Outcome:
    """How is this topic configured here?"""
    config = topics.find(ask.topic)
    if config is None:
        why = f"No topic in this broker. topic: {ask.topic}"
        raise Refused(ResponseCode.TOPIC_NOT_EXIST, why)
    return Answer(body=config.write())


@handles(UpdateAndCreateSubscriptionGroup, needs=ADMIN)
def update_and_create_group(
    groups: Groups, ask: UpdateAndCreateSubscriptionGroup, request: Command, now_ms: int
) -> Outcome:
    """Let this group be as said in the body."""
    config = SubscriptionGroupConfig.read(request.body)
    if why := names.group_fault(config.group_name):
        raise Refused(ResponseCode.INVALID_PARAMETER, why)
    return _when_saved(groups, groups.put(config), now_ms)


def _when_saved(kept: Topics | Groups, change: int, now_ms: int) -> Outcome:
    """The answer to an operator whose change must survive what happens next."""

    def decide(now_ms: int) -> Outcome:
        if kept.saved >= change:
            return Answer()
        if kept.failure is None and now_ms < until:
            return Wait(kept.saves, until, decide)
        late = "the change is not on disk yet; it may be lost if the broker stops"
        raise Refused(ResponseCode.SYSTEM_ERROR, kept.failure or late)

    until = now_ms + SAVE_MS
    kept.save()  # the same change may have failed before, and is no news to the table
    return decide(now_ms)
