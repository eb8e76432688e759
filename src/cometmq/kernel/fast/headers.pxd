"""What records.pyx and replies.pyx use of a send: its fields, without Python in between."""

from libc.stdint cimport int32_t, int64_t


cdef class Send:
    cdef public int32_t code, codec, opaque, flag, version
    cdef public str group, topic, default_topic
    cdef public int32_t default_topic_queues, queue_id, sys_flag, message_flag
    cdef public int32_t reconsume_times, max_reconsume_times, marks, size
    cdef public int64_t born_ms, prepared_offset, tag_hash, position, queue_offset
    cdef public bint unit_mode, batch
    cdef public bytes body
    cdef bytes text  # the properties
    cdef bytes own_key  # a unique key that was set, else it is a part of the properties
    cdef Py_ssize_t key_at, key_length

    cpdef rewrite(self, bytes properties)
