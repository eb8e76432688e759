"""One seed gives one run: the same events in the same order, wherever it runs and after what."""

from concurrent.futures import ThreadPoolExecutor

from tests.simulation.runs import in_processes

REPLAYED = range(20)
OTHERS = range(100, 150)


def test_a_seed_alone_and_after_fifty_others_gives_the_same_run() -> None:
    with ThreadPoolExecutor(2) as pool:
        alone = list(pool.map(lambda seed: in_processes([seed], hash_seed="1")[0], REPLAYED))
    together = in_processes([*OTHERS, *REPLAYED], hash_seed="2", processes=1)
    again = {one.seed: one.digest for one in together}
    assert [one.failure for one in alone] == [None] * len(REPLAYED)
    assert {one.seed: one.digest for one in alone} == {seed: again[seed] for seed in REPLAYED}
