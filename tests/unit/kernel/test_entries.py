"""Consume queue entries, tails and the scan by tag on both kernels."""

import pytest

from cometmq.kernel import Malformed
from tests.kernels import Kernel


def test_an_entry_is_written_as_printed(kernel: Kernel) -> None:
    entry = kernel.entries.pack(4096, 117, 2598919)
    assert entry.hex() == "000000000000100000000075000000000027a807"
    pair = entry + kernel.entries.pack(-1, -2, -(1 << 63))
    assert kernel.entries.unpack(pair) == [(4096, 117, 2598919), (-1, -2, -(1 << 63))]
    with pytest.raises(Malformed):
        kernel.entries.unpack(pair[:-1])


def test_a_tail_grows_at_one_end_and_shrinks_at_both(kernel: Kernel) -> None:
    tail = kernel.entries.Tail(100)
    for number in range(1000):
        assert tail.next == 100 + number
        tail.append(number, number + 1, -number)
    assert kernel.entries.unpack(tail.data) == [(n, n + 1, -n) for n in range(1000)]
    tail.drop(990)
    assert (tail.first, tail.next) == (1090, 1100)
    tail.cut(1095)
    assert [entry[0] for entry in kernel.entries.unpack(tail.data)] == [990, 991, 992, 993, 994]
    tail.append(7, 8, 9)
    assert kernel.entries.unpack(tail.data)[-1] == (7, 8, 9)
    tail.cut(1090)
    assert (tail.first, tail.next, tail.data) == (1090, 1090, b"")
    for wrong in (1089, 1091):
        with pytest.raises(ValueError):
            tail.cut(wrong)
    for wrong in (-1, 1, 1 << 62):
        with pytest.raises(ValueError):
            tail.drop(wrong)


def test_a_tail_that_someone_reads_stays_as_it_is(kernel: Kernel) -> None:
    tail = kernel.entries.Tail(0)
    tail.append(1, 2, 3)
    with memoryview(tail.data), pytest.raises(BufferError):
        tail.append(4, 5, 6)
    assert kernel.entries.unpack(tail.data) == [(1, 2, 3)]


def test_a_scan_finds_what_matches_within_its_limits(kernel: Kernel) -> None:
    data = b"".join(kernel.entries.pack(100 * n, 100, n % 3) for n in range(12))
    scan = kernel.entries.scan
    everything = [(100 * n, 100) for n in range(12)]
    assert scan(data, None, 32, 1 << 30) == (everything, 12)
    assert scan(data, None, 5, 1 << 30) == (everything[:5], 5)
    assert scan(data, None, 0, 1 << 30) == ([], 0)
    assert scan(data, frozenset(), 32, 1 << 30) == ([], 12)
    assert scan(data, frozenset({1, 99}), 32, 1 << 30) == (everything[1::3], 12)
    assert scan(data, frozenset({1, *range(50, 150)}), 2, 1 << 30) == (everything[1:5:3], 5)
    # The first always fits; what does not fit is not counted as examined.
    assert scan(data, frozenset({1}), 32, 50) == ([(100, 100)], 4)
    assert scan(data, None, 32, 250) == (everything[:2], 2)


def test_a_scan_ends_where_nothing_was_written(kernel: Kernel) -> None:
    one = kernel.entries.pack(5, 6, 7)
    for rest in (bytes(40), kernel.entries.pack(-1, 6, 7), kernel.entries.pack(5, -6, 7), one[:19]):
        assert kernel.entries.scan(memoryview(one + rest), None, 9, 99) == ([(5, 6)], 1)
