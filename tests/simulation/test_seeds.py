"""Every seed is a run with three deaths and more, after which nothing that was promised is gone."""

from collections import Counter
from collections.abc import Callable, Sequence

import pytest

from cometmq import kernel
from tests.simulation.runs import in_processes, many, other_kernel
from tests.simulation.world import DEATHS, LEAST_SENDS, POINTS, ROLL_OVERS, Result

Say = Callable[[str], None]


def told(results: Sequence[Result], say: Say) -> None:
    """Says what happened in the runs, and fails where one of them failed or nothing was tested."""
    points: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for one in results:
        points += one.points
        counts += one.counts
    say(f"{len(results)} seeds: " + ", ".join(f"{n} {name}" for name, n in counts.items()))
    say("died " + ", ".join(f"{points[point]} times {point}" for point in POINTS))
    failed = [one for one in results if one.failure]
    for one in failed[:10]:
        say(f"COMETMQ_SEED={one.seed}: {one.failure}")
    assert not failed, f"{len(failed)} of {len(results)} seeds, the first is {failed[0].seed}"
    for one in results:
        assert one.counts["deaths"] >= DEATHS, one
        assert one.counts["tries"] >= LEAST_SENDS, one
        assert one.counts["log files"] > ROLL_OVERS, one
    if len(results) >= 50:
        assert all(points[point] for point in POINTS), points


@pytest.mark.spec("STO-15", "STO-22", "STO-45", "STO-50")
@pytest.mark.timeout(3600)
def test_no_seed_loses_what_was_promised(soak: bool, say: Say) -> None:
    told(in_processes(many(300, soak=soak, soaked=5000)), say)


@pytest.mark.timeout(3600)
def test_nor_does_one_on_the_other_kernel(soak: bool, say: Say) -> None:
    name = other_kernel()
    if name == "fast":
        pytest.skip(f"the compiled kernel is not built, {kernel.NAME} is what all others ran on")
    told(in_processes(many(50, soak=soak, soaked=5000), kernel=name), say)
