"""Filters by tag: what a subscription's text wants (spec 04 ch. 2, 18.2)."""

from dataclasses import dataclass
from typing import Self

from cometmq.kernel import headers
from cometmq.kernel.faults import CometError

EVERYTHING = "*"


class BadExpression(CometError, ValueError):
    """The text of a subscription means nothing."""

    code = 23  # SUBSCRIPTION_PARSE_FAILED


@dataclass(frozen=True, slots=True)
class Tags:
    """The tags that a subscription wants, each once, in the order of its text."""

    text: str = EVERYTHING
    tags: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str | None) -> Self:
        """Read `created || paid`. Nothing or `*` is everything; within a list `*` is a tag."""
        if not text or text == EVERYTHING:
            return cls()
        if not text.replace("||", ""):
            raise BadExpression(f"subString split error: {text[:40]!r} names no tag")
        named = (part.strip() for part in text.split("||"))
        return cls(text, tuple(dict.fromkeys(part for part in named if part)))

    @property
    def codes(self) -> tuple[int, ...]:
        """The hash of each tag, each once: a subscription's code set."""
        texts = (tag.encode(errors="replace") for tag in self.tags)  # as they travel
        return tuple(dict.fromkeys(map(headers.java_hash, texts)))

    @property
    def hashes(self) -> frozenset[int] | None:
        """What the queue entries are scanned for; None where everything is wanted."""
        return None if self.text == EVERYTHING else frozenset(self.codes)

    def matches(self, tag: str | None) -> bool:
        """Whether a message with this tag is wanted, by its text: tags can share a hash."""
        return self.text == EVERYTHING or tag in self.tags
