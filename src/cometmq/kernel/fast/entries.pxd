"""What records.pyx shares with entries.pyx."""

from libc.stdint cimport int32_t, int64_t


cdef class Tail:
    cdef public int64_t first
    cdef readonly bytearray data

    cdef int64_t next_offset(self) noexcept
    cpdef append(self, int64_t position, int32_t size, int64_t tag_hash)
