"""Filters of messages without I/O."""

from cometmq.filtering.tags import BadExpression, Tags

__all__ = ["BadExpression", "Tags"]
