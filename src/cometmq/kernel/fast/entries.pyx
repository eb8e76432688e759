"""Consume queue entries: 20 bytes each (spec 03 ch. 7.1)."""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from libc.stdint cimport int32_t, int64_t, uint8_t, uint64_t

from cometmq.kernel.fast.octets cimport load32, load64, store32, store64

import cometmq.kernel.pure.entries as plain
from cometmq.kernel.pure.entries import SIZE, pack, unpack

cdef enum:
    ENTRY = 20


@cython.final
cdef class Tail:
    def __cinit__(self, int64_t first):
        self.first = first
        self.data = bytearray()

    cdef int64_t next_offset(self) noexcept:
        return self.first + PyByteArray_GET_SIZE(self.data) // ENTRY

    cpdef append(self, int64_t position, int32_t size, int64_t tag_hash):
        cdef Py_ssize_t at = PyByteArray_GET_SIZE(self.data)
        PyByteArray_Resize(self.data, at + ENTRY)
        cdef uint8_t* p = <uint8_t*>PyByteArray_AS_STRING(self.data) + at
        store64(p, position)
        store32(p + 8, size)
        store64(p + 12, tag_hash)

    @property
    def next(self):
        return self.next_offset()

    drop = plain.Tail.drop
    cut = plain.Tail.cut


def scan(data, hashes, int64_t most, int64_t most_bytes):
    cdef list found = []
    cdef int64_t position, tag_hash, total = 0
    cdef uint64_t ends = 0  # which last six bits a wanted hash has: most others need no lookup
    cdef int32_t size
    cdef Py_ssize_t at = 0
    cdef Py_buffer view
    cdef const uint8_t* p
    for tag_hash in hashes or ():
        ends |= <uint64_t>1 << (tag_hash & 63)
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        while view.len - at >= ENTRY and len(found) < most:
            p = <const uint8_t*>view.buf + at
            position = <int64_t>load64(p)
            size = <int32_t>load32(p + 8)
            if position < 0 or size <= 0:
                break
            tag_hash = <int64_t>load64(p + 12)
            if hashes is None or ends >> (tag_hash & 63) & 1 and tag_hash in hashes:
                if found and total + size > most_bytes:
                    break
                found.append((position, size))
                total += size
            at += ENTRY
    finally:
        PyBuffer_Release(&view)
    return found, at // ENTRY
