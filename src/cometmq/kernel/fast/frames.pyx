"""Frames: where one ends on the stream (spec 01 ch. 2)."""

from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t

from cometmq.kernel.fast.octets cimport load32

import cometmq.kernel.pure.frames as plain
from cometmq.kernel.faults import Malformed
from cometmq.kernel.pure.frames import BINARY, JSON, Frame, join


cdef bint find(const uint8_t* p, Py_ssize_t left, int64_t limit, Edge* edge) noexcept nogil:
    """Whether a whole frame stands at p."""
    cdef uint32_t word
    if left < 8:
        return False
    edge.length = <int32_t>load32(p)
    word = load32(p + 4)
    edge.codec = word >> 24
    edge.header = word & 0xFFFFFF
    return (
        edge.header <= edge.length - 4 <= limit - 8 and edge.length <= left - 4
        and (edge.codec == 1 or edge.codec == 0 and edge.header > 0)
    )


cdef object frame_at(const uint8_t* p, Edge* edge, object before):
    cdef Py_ssize_t body = 8 + edge.header
    return Frame(edge.codec, p[8:body], p[body:4 + edge.length])


cdef tuple each(data, int64_t limit, Make make):
    cdef list made = []
    cdef object last = None
    cdef Py_ssize_t at = 0
    cdef Py_buffer view
    cdef Edge edge
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        while find(<const uint8_t*>view.buf + at, view.len - at, limit, &edge):
            last = make(<const uint8_t*>view.buf + at, &edge, last)
            made.append(last)
            at += 4 + edge.length
        if at < view.len:
            plain.split(memoryview(data)[at:at + 8], limit)  # says it where it can never become one
    except Malformed as fault:
        fault.before = made
        raise
    finally:
        PyBuffer_Release(&view)
    return made, at


def split(data, int64_t limit):
    return each(data, limit, frame_at)
