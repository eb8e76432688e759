"""How headers.pyx goes through the frames of a read."""

from libc.stdint cimport int64_t, uint8_t


cdef struct Edge:
    Py_ssize_t length  # as announced: the whole frame has 4 more
    Py_ssize_t header
    int codec


# What becomes of the whole frame at p; `before` is what became of the one before it, or None.
ctypedef object (*Make)(const uint8_t* p, Edge* edge, object before)

cdef object frame_at(const uint8_t* p, Edge* edge, object before)
cdef tuple each(data, int64_t limit, Make make)
