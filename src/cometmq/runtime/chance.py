"""Chance: where random numbers come from when nobody handed in a generator."""

from random import Random


def fresh() -> Random:
    """A generator that no seed repeats; a simulation hands in one of its own instead."""
    return Random()
