"""Receipt: where a message is that a broker has taken."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Receipt:
    """Where a message is; of a batch, where its first message is."""

    message_id: str
    """The id that the client made; it stays the same however often the message is sent."""
    offset_message_id: str
    """The id that says where the broker stored it; of a batch, all of them, parted by commas."""
    topic: str
    broker: str
    queue_id: int
    queue_offset: int
