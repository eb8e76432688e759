"""Headers of topics and subscription groups as a broker keeps them."""

from enum import StrEnum

from cometmq.protocol.codes import RequestCode
from cometmq.protocol.fields import Int, RequestHeader


class TopicFilterType(StrEnum):
    """Whether a message of a topic has one tag or several."""

    SINGLE_TAG = "SINGLE_TAG"
    MULTI_TAG = "MULTI_TAG"


class UpdateAndCreateTopic(RequestHeader, code=RequestCode.UPDATE_AND_CREATE_TOPIC):
    """Let this topic be as said here; `attributes` is a list of `+name=value` and `-name`."""

    topic: str
    default_topic: str
    read_queue_nums: Int
    write_queue_nums: Int
    perm: Int
    topic_filter_type: TopicFilterType
    topic_sys_flag: Int | None = None
    order: bool = False
    attributes: str | None = None
    force: bool = False


class GetTopicConfig(RequestHeader, code=RequestCode.GET_TOPIC_CONFIG):
    """How is this topic configured here?"""

    topic: str


class UpdateAndCreateSubscriptionGroup(
    RequestHeader, code=RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
):
    """Let this group be as said in the body."""
