"""Consume queue entries: 20 bytes each (spec 03 ch. 7.1)."""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport int32_t, int64_t, uint8_t

from cometmq.kernel.fast.octets cimport BUILT_FOR, load32, load64, store32, store64

from cometmq.kernel.faults import Malformed

ABI = BUILT_FOR
SIZE = 20

cdef enum:
    ENTRY = 20
    LISTED = 32  # so many hashes are compared one by one; more are looked up in the set


cdef inline void write(uint8_t* p, int64_t position, int32_t size, int64_t tag_hash) noexcept nogil:
    store64(p, position)
    store32(p + 8, size)
    store64(p + 12, tag_hash)


def pack(int64_t position, int32_t size, int64_t tag_hash):
    """One entry: where its record lies, how long that is, and the hash of its tag."""
    cdef bytes entry = PyBytes_FromStringAndSize(NULL, ENTRY)
    write(<uint8_t*>PyBytes_AS_STRING(entry), position, size, tag_hash)
    return entry


def unpack(data):
    """All entries of `data` as (position, size, tag hash)."""
    cdef list entries = []
    cdef Py_buffer view
    cdef const uint8_t* p
    cdef Py_ssize_t at
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if view.len % ENTRY:
            raise Malformed(f"whole entries of {ENTRY} bytes expected, not {view.len} bytes")
        for at in range(0, view.len, ENTRY):
            p = <const uint8_t*>view.buf + at
            entries.append((<int64_t>load64(p), <int32_t>load32(p + 8), <int64_t>load64(p + 12)))
    finally:
        PyBuffer_Release(&view)
    return entries


@cython.final
cdef class Tail:
    """The newest entries of a queue; `first` is the queue offset of the first one held."""

    def __cinit__(self, int64_t first):
        self.first = first
        self.cells = bytearray()

    cdef int64_t next_offset(self) noexcept:
        return self.first + PyByteArray_GET_SIZE(self.cells) // ENTRY

    cdef int put(self, int64_t position, int32_t size, int64_t tag_hash) except -1:
        cdef Py_ssize_t at = PyByteArray_GET_SIZE(self.cells)
        PyByteArray_Resize(self.cells, at + ENTRY)
        write(<uint8_t*>PyByteArray_AS_STRING(self.cells) + at, position, size, tag_hash)
        return 0

    @property
    def data(self):
        """The entries that are held, from `first` on."""
        return self.cells

    @data.setter
    def data(self, bytearray data not None):
        self.cells = data

    @property
    def next(self):
        """The queue offset that the next entry will get."""
        return self.next_offset()

    def append(self, int64_t position, int32_t size, int64_t tag_hash):
        """Adds the entry of queue offset `next`."""
        self.put(position, size, tag_hash)

    def drop(self, int64_t count):
        """Forgets the oldest `count` entries: they are in the file now."""
        cdef int64_t held = self.next_offset() - self.first
        if not 0 <= count <= held:
            raise ValueError(f"{held} entries are here, {count} cannot go")
        del self.cells[:count * ENTRY]
        self.first += count

    def cut(self, int64_t next):
        """Forgets the newest entries, so that `next` is the next queue offset again."""
        if not self.first <= next <= self.next_offset():
            raise ValueError(f"offsets {self.first} to {self.next_offset()} are here, not {next}")
        del self.cells[(next - self.first) * ENTRY:]


def scan(data, hashes, int64_t most, int64_t most_bytes):
    """Where the records of matching entries lie, and how many entries were looked at."""
    cdef list found = []
    cdef int64_t listed[LISTED]
    cdef int64_t position, tag_hash, total = 0
    cdef int32_t size
    cdef Py_ssize_t at = 0, count = 0, i
    cdef bint each = hashes is None, short = not each and len(hashes) <= LISTED, matches
    cdef Py_buffer view
    cdef const uint8_t* p
    if short:
        for wanted in hashes:
            listed[count] = wanted
            count += 1
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        while view.len - at >= ENTRY and len(found) < most:
            p = <const uint8_t*>view.buf + at
            position = <int64_t>load64(p)
            size = <int32_t>load32(p + 8)
            if position < 0 or size <= 0:
                break
            tag_hash = <int64_t>load64(p + 12)
            matches = each
            if short:
                for i in range(count):
                    if listed[i] == tag_hash:
                        matches = True
                        break
            elif not each:
                matches = tag_hash in hashes
            if matches:
                if found and total + size > most_bytes:
                    break
                found.append((position, size))
                total += size
            at += ENTRY
    finally:
        PyBuffer_Release(&view)
    return found, at // ENTRY
