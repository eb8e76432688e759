"""Frames: where one ends on the stream (spec 01 ch. 2)."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from cometmq.kernel.fast.octets cimport BUILT_FOR, load32

import cometmq.kernel.pure.frames as plain
from cometmq.kernel.faults import Malformed
from cometmq.kernel.pure.frames import BINARY, JSON, Frame, join

ABI = BUILT_FOR


cdef int find(const uint8_t* p, Py_ssize_t left, int64_t limit, Edge* edge) noexcept nogil:
    """1 if a whole frame stands at p, 0 if more bytes are needed, -1 if it can never become one."""
    cdef uint32_t word
    if left < 4:
        return 0
    edge.length = <int32_t>load32(p)
    if edge.length < 4 or edge.length > limit - 4:
        return -1
    if left < 8:
        return 0
    word = load32(p + 4)
    edge.codec = word >> 24
    edge.header = word & 0xFFFFFF
    if edge.codec > 1 or edge.header > edge.length - 4 or edge.header == edge.codec == 0:
        return -1
    return left - 4 >= edge.length


cdef object frame_at(const uint8_t* p, Edge* edge, object before):
    cdef Py_ssize_t body = 8 + edge.header
    return Frame(edge.codec, p[8:body], p[body:4 + edge.length])


cdef tuple each(data, int64_t limit, Make make):
    cdef list made = []
    cdef object last = None
    cdef Py_ssize_t at = 0
    cdef Py_buffer view
    cdef Edge edge
    cdef int found
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        found = find(<const uint8_t*>view.buf, view.len, limit, &edge)
        while found > 0:
            last = make(<const uint8_t*>view.buf + at, &edge, last)
            made.append(last)
            at += 4 + edge.length
            found = find(<const uint8_t*>view.buf + at, view.len - at, limit, &edge)
    finally:
        PyBuffer_Release(&view)
    if found < 0:
        try:
            plain.split(bytes(data)[at:], limit)  # which says what is wrong
        except Malformed as fault:
            fault.before = made
            raise
    return made, at


def split(data, int64_t limit):
    return each(data, limit, frame_at)
