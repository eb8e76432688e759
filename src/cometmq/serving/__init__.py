"""What all servers share: the handler table, the driver that serves it, answers that wait."""
# ruff: noqa: I001

# fmt: off
from cometmq.runtime import Refused
from cometmq.serving.driver import Driver, Item
from cometmq.serving.handling import (
    ADMIN, FAQ, OPEN, Answer, Gate, Handler, On, Outcome, Permission, Pub, Sub, Wait,
    handler_table, handles,
)

__all__ = [
    "ADMIN", "FAQ", "OPEN", "Answer", "Driver", "Gate", "Handler", "Item", "On", "Outcome",
    "Permission", "Pub", "Refused", "Sub", "Wait", "handler_table", "handles",
]
