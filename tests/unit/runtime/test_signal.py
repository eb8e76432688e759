"""Signals: those who watch are told in order, until they stop."""

from cometmq.runtime import Signal


def test_watchers_are_told_in_the_order_of_their_coming():
    told = []
    signal = Signal()
    for name in "abc":
        signal.watch(lambda value, name=name: told.append((name, value)))
    signal.fire(1)
    assert told == [("a", 1), ("b", 1), ("c", 1)]


def test_who_stopped_watching_is_not_told_even_by_the_firing_that_stopped_it():
    told = []
    signal = Signal()
    unwatch = []
    signal.watch(lambda _: unwatch[0]())
    unwatch.append(signal.watch(told.append))
    signal.fire(1)
    assert told == []
    assert bool(signal)
