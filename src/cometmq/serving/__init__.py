"""What all servers share: the handler table, the driver that serves it, answers that wait."""

from cometmq.serving.answers import Answer, Elsewhere, On, Outcome, Refusal, Request, Wait, refuse
from cometmq.serving.declare import ADMIN, OPEN, Declared, Permission, Pub, Sub, handles
from cometmq.serving.driver import Driver, Item, ServingLimits
from cometmq.serving.gate import Gate
from cometmq.serving.table import Entry, HandlerTable

__all__ = [
    "ADMIN",
    "OPEN",
    "Answer",
    "Declared",
    "Driver",
    "Elsewhere",
    "Entry",
    "Gate",
    "HandlerTable",
    "Item",
    "On",
    "Outcome",
    "Permission",
    "Pub",
    "Refusal",
    "Request",
    "ServingLimits",
    "Sub",
    "Wait",
    "handles",
    "refuse",
]
