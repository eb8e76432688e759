"""Frames: where one ends on the stream, and how one is put together (spec 01 ch. 2)."""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from libc.stdint cimport int32_t, int64_t, uint32_t, uint8_t
from libc.string cimport memcpy

from cometmq.kernel.fast.octets cimport BUILT_FOR, load32, store32

from cometmq.kernel.faults import Malformed

ABI = BUILT_FOR
JSON, BINARY = 0, 1


@cython.final
@cython.freelist(64)
cdef class Frame:
    """One frame, its header undecoded."""

    def __init__(self, int codec, bytes header not None, bytes body not None):
        self.codec = codec
        self.header = header
        self.body = body


cdef int edge(const uint8_t* p, Py_ssize_t left, int64_t limit, Edge* found) except -1:
    cdef uint32_t word
    if left < 4:
        return 0
    found.length = <int32_t>load32(p)
    if found.length < 4 or found.length > limit - 4:
        raise Malformed(f"a frame of 4 to {limit - 4} bytes expected, not {found.length}")
    if left < 8:
        return 0
    word = load32(p + 4)
    found.codec = word >> 24
    found.header = word & 0xFFFFFF
    if found.codec > 1:
        raise Malformed(f"serialize type 0 or 1 expected, not {found.codec}")
    if found.header > found.length - 4 or (found.header == 0 and found.codec == 0):
        raise Malformed(
            f"a header of 1 to {found.length - 4} bytes expected, not {found.header}"
        )
    return left - 4 >= found.length


cdef Frame frame_at(const uint8_t* p, Edge* found):
    cdef Frame frame = Frame.__new__(Frame)
    frame.codec = found.codec
    frame.header = PyBytes_FromStringAndSize(<char*>p + 8, found.header)
    frame.body = PyBytes_FromStringAndSize(
        <char*>p + 8 + found.header, found.length - 4 - found.header
    )
    return frame


def split(data, int64_t limit):
    """The complete frames at the start of `data`, and how many bytes they took."""
    cdef list frames = []
    cdef Py_ssize_t at = 0
    cdef Py_buffer view
    cdef Edge found
    cdef const uint8_t* p
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        p = <const uint8_t*>view.buf
        while edge(p + at, view.len - at, limit, &found):
            frames.append(frame_at(p + at, &found))
            at += 4 + found.length
    except Malformed as fault:
        fault.before = frames
        raise
    finally:
        PyBuffer_Release(&view)
    return frames, at


def join(int codec, bytes header not None, bytes body not None=b""):
    """One whole frame."""
    cdef Py_ssize_t header_length = PyBytes_GET_SIZE(header), body_length = PyBytes_GET_SIZE(body)
    if header_length > 0xFFFFFF:
        raise Malformed(f"a header of at most 16777215 bytes expected, not {header_length}")
    if body_length > 0x7FFFFFFF - 4 - header_length:
        raise Malformed(f"a frame below 2 GiB expected, not a body of {body_length} bytes")
    cdef bytes frame = PyBytes_FromStringAndSize(NULL, 8 + header_length + body_length)
    cdef uint8_t* p = <uint8_t*>PyBytes_AS_STRING(frame)
    store32(p, <uint32_t>(4 + header_length + body_length))
    store32(p + 4, <uint32_t>codec << 24 | <uint32_t>header_length)
    memcpy(p + 8, PyBytes_AS_STRING(header), header_length)
    memcpy(p + 8 + header_length, PyBytes_AS_STRING(body), body_length)
    return frame
