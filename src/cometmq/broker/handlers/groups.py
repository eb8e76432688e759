"""Consumer groups made and changed by operators."""

from cometmq.broker.groups import Groups
from cometmq.broker.handlers.topics import when_saved
from cometmq.message import names
from cometmq.protocol import (
    ResponseCode,
    SubscriptionGroupConfig,
    UpdateAndCreateSubscriptionGroup,
)
from cometmq.serving import ADMIN, Outcome, Request, handles, refuse


@handles(UpdateAndCreateSubscriptionGroup, needs=ADMIN)
def update_and_create_group(
    groups: Groups, ask: UpdateAndCreateSubscriptionGroup, request: Request, now_ms: int
) -> Outcome:
    """Let this group be as said in the body."""
    config = SubscriptionGroupConfig.read(request.body)
    if why := names.group_fault(config.group_name):
        return refuse(ResponseCode.INVALID_PARAMETER, why)
    return when_saved(groups, groups.put(config), now_ms)
