"""Publishing: what `visible` has passed exists for readers, turn by turn."""

from collections import deque

from cometmq.store.log import Turn
from cometmq.store.position import Mark
from cometmq.store.watermark import Fault, Watermark


class Publisher:
    """Moves `visible` after the watermark that readers are promised."""

    def __init__(self, promised: Watermark, mark: Mark) -> None:
        self._promised = promised
        self._turns: deque[Turn] = deque()
        self._stopped = False
        self.visible = Watermark(promised.position)
        self.mark = mark
        """The last record that is visible."""

    def add(self, turn: Turn) -> None:
        """A turn was written."""
        self._turns.append(turn)

    def publish(self) -> None:
        """Shows what may be shown: promised, and each new queue's first file is there."""
        turns, limit = self._turns, self._promised.position
        while turns and not self._stopped and turns[0].mark.end <= limit and not turns[0].births:
            turn = turns.popleft()
            self.mark = turn.mark
            for (queue, _), end in zip(turn.touched, turn.ends, strict=True):
                queue.publish(end)
        self.visible.advance(self.mark.end)

    def stop(self, fault: Fault) -> None:
        """Nothing more becomes visible."""
        self._stopped = True
        self.visible.fail(fault)
