"""What a peer can say that this room refuses; a frame that breaks the format is the kernel's
Malformed.
"""

from cometmq.kernel.faults import CometError
from cometmq.protocol.codes import ResponseCode


class BadRequest(CometError, ValueError):
    """A request that is well framed and means nothing: answered, and the connection stays."""

    code = ResponseCode.SYSTEM_ERROR


class BadField(BadRequest):
    """A field of the header is missing or has a value of the wrong kind."""


class BadBody(BadRequest):
    """The body is not JSON, or not of the kind that this code carries."""
