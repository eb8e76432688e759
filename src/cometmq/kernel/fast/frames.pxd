"""What headers.pyx shares with frames.pyx."""

from libc.stdint cimport int64_t, uint8_t


cdef struct Edge:
    Py_ssize_t length  # as announced: the whole frame has 4 more
    Py_ssize_t header
    int codec


cdef class Frame:
    cdef public int codec
    cdef public bytes header
    cdef public bytes body


# 1 if a whole frame stands at p, 0 if more bytes are needed; refuses what can never become one.
cdef int edge(const uint8_t* p, Py_ssize_t left, int64_t limit, Edge* found) except -1
cdef Frame frame_at(const uint8_t* p, Edge* found)
