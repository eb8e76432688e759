"""What records.pyx and replies.pyx use: the fields of a send, and what its properties say."""

from libc.stdint cimport int32_t, int64_t, uint8_t


cdef class Send:
    cdef public int32_t code, codec, opaque, flag, version
    cdef public str group, topic, default_topic
    cdef public int32_t default_topic_queues, queue_id, sys_flag, message_flag
    cdef public int32_t reconsume_times, max_reconsume_times, marks, size
    cdef public int64_t born_ms, prepared_offset, tag_hash, position, queue_offset
    cdef public bint unit_mode, batch
    cdef public bytes body
    cdef readonly bytes properties
    cdef Py_ssize_t key_at, key_length  # of the unique key in the properties

    cpdef rewrite(self, bytes properties)


cdef struct Found:
    int marks
    int32_t tag_hash
    Py_ssize_t unique_at, unique_length


cdef int scan_properties(const uint8_t* p, Py_ssize_t n, Found* found) except -1
