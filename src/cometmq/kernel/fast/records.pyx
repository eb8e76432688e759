"""Records of the commit log (spec 03 ch. 3), and batch bodies."""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.memoryview cimport PyMemoryView_FromObject
from libc.stdint cimport INT32_MAX, int16_t, int32_t, int64_t, int8_t, uint8_t, uint32_t
from libc.string cimport memcpy

from cometmq.kernel.fast.entries cimport Tail
from cometmq.kernel.fast.headers cimport Found, Send, scan_properties
from cometmq.kernel.fast.octets cimport (
    copy, load16, load32, load64, store16, store32, store64, text_at,
)

import cometmq.kernel.pure.records as plain
from cometmq.kernel.pure.records import (
    BAD, BLANK, BLANK_MAGIC, MORE, V1, V2, ZERO, Record, decode, members, size_of,
)

cdef extern from "zlib.h" nogil:
    unsigned long crc32(unsigned long crc, const uint8_t* data, unsigned int length)

cdef object new_tuple = tuple.__new__

cdef enum:
    FORMAT_1 = 0xDAA320A7
    FORMAT_2 = 0xDAA320AB
    BLANK_FORMAT = 0xCBD43194
    SHORTEST = 91
    SMALLEST_CHUNK = 65536
    LARGEST_SPARE = 4194304


cdef inline int32_t crc_of(const uint8_t* body, Py_ssize_t length) noexcept nogil:
    # zlib takes its first steps again for a null pointer, so an empty body must not come as one.
    return <int32_t>(crc32(0, body, <unsigned int>length) & 0x7FFFFFFF) if length else 0


# The largest buffer given back lately. Pages that the system has to map anew for each turn would
# cost as much as all that is done with a record but its CRC.
cdef uint8_t* spare = NULL
cdef Py_ssize_t spare_capacity = 0


@cython.final
cdef class Chunk:
    """Memory that records are written to, and that views of it keep."""

    cdef uint8_t* at
    cdef Py_ssize_t used, capacity

    def __cinit__(self, Py_ssize_t needed):
        global spare, spare_capacity
        if spare != NULL and spare_capacity >= needed:
            self.at, self.capacity = spare, spare_capacity
            spare, spare_capacity = NULL, 0
            return
        cdef Py_ssize_t capacity = max(2 * needed, SMALLEST_CHUNK)
        self.at = <uint8_t*>PyMem_Malloc(capacity)
        if self.at == NULL:
            raise MemoryError
        self.capacity = capacity

    def __dealloc__(self):
        global spare, spare_capacity
        if spare_capacity < self.capacity <= LARGEST_SPARE:
            self.at, spare = spare, self.at
            spare_capacity = self.capacity
        PyMem_Free(self.at)

    def __getbuffer__(self, Py_buffer* view, int flags):
        PyBuffer_FillInfo(view, self, self.at, self.used, True, flags)


@cython.final
cdef class Segment:
    cdef readonly int64_t position, end, room
    cdef Chunk chunk

    def __cinit__(self, int64_t position, int64_t room):
        self.position = self.end = position
        self.room = room
        self.chunk = Chunk(0)

    @property
    def data(self):
        """The bytes of all records so far, without a copy."""
        return PyMemoryView_FromObject(self.chunk)

    cdef uint8_t* grow(self, Py_ssize_t size) except NULL:
        """Where the next `size` bytes go; they count once `used` says so."""
        cdef Chunk larger
        if size > self.chunk.capacity - self.chunk.used:
            larger = Chunk(self.chunk.used + size)
            memcpy(larger.at, self.chunk.at, self.chunk.used)
            larger.used = self.chunk.used
            self.chunk = larger
        return self.chunk.at + self.chunk.used

    def add(
        self, Send send not None, Tail tail not None, bytes topic not None,
        bytes born_host not None, bytes store_host not None, bytes suffix not None,
        int64_t store_ms,
    ):
        cdef bytes body = send.body, properties = send.properties
        if body is None:
            raise TypeError("a send with a body expected")
        cdef Py_ssize_t topic_length = PyBytes_GET_SIZE(topic), body_length = PyBytes_GET_SIZE(body)
        cdef Py_ssize_t length = PyBytes_GET_SIZE(properties)
        cdef bint open_end = length > 0 and PyBytes_AS_STRING(properties)[length - 1] != 2
        cdef Py_ssize_t total = length + open_end + PyBytes_GET_SIZE(suffix)
        cdef Py_ssize_t born = PyBytes_GET_SIZE(born_host), stored = PyBytes_GET_SIZE(store_host)
        if (
            not 0 < topic_length <= 255 or total > 32767
            or born != 8 and born != 20 or stored != 8 and stored != 20
        ):
            plain.check(topic, total, born_host, store_host)
        cdef bint wide = topic_length > 127
        cdef int64_t size = 75 + wide + born + stored + body_length + topic_length + total
        if size + 8 > self.room:
            return False
        if size > INT32_MAX:
            raise ValueError(f"a record of at most {INT32_MAX} bytes expected, not {size}")
        cdef int32_t sys_flag = send.sys_flag & ~0x30 | (born == 20) << 4 | (stored == 20) << 5
        # Prepared and rolled back messages stand in no queue (spec 03 §3.1, QUEUEOFFSET).
        cdef bint queued = not sys_flag & 4
        cdef int64_t queue_offset = tail.next_offset() if queued else 0
        cdef uint8_t* p = self.grow(<Py_ssize_t>size)
        if queued:
            tail.append(self.end, <int32_t>size, send.tag_hash)
        self.chunk.used += <Py_ssize_t>size
        store32(p, <uint32_t>size)
        store32(p + 4, FORMAT_2 if wide else FORMAT_1)
        store32(p + 8, crc_of(<uint8_t*>PyBytes_AS_STRING(body), body_length))
        store32(p + 12, send.queue_id)
        store32(p + 16, send.message_flag)
        store64(p + 20, queue_offset)
        store64(p + 28, self.end)
        store32(p + 36, sys_flag)
        store64(p + 40, send.born_ms)
        p = copy(p + 48, born_host)
        store64(p, store_ms)
        p = copy(p + 8, store_host)
        store32(p, send.reconsume_times)
        store64(p + 4, send.prepared_offset)
        store32(p + 12, <uint32_t>body_length)
        p = copy(p + 16, body)
        p[0] = 0  # of the two bytes of a long topic's length; else the length comes over it
        p += wide
        p[0] = <uint8_t>topic_length
        p = copy(p + 1, topic)
        store16(p, <uint32_t>total)
        p = copy(p + 2, properties)
        if open_end:
            p[0] = 2
            p += 1
        copy(p, suffix)
        send.position, send.size, send.queue_offset = self.end, <int32_t>size, queue_offset
        self.end += size
        self.room -= size
        return True

    def blank(self):
        if not 8 <= self.room <= INT32_MAX:
            raise ValueError(f"a blank record needs 8 bytes, {self.room} are left")
        cdef uint8_t* p = self.grow(8)
        store32(p, <uint32_t>self.room)
        store32(p + 4, BLANK_FORMAT)
        self.chunk.used += 8
        self.end += self.room
        self.room = 0


cdef struct Layout:
    # Where the parts start, after all of them were found to be inside.
    Py_ssize_t size, store_ms, middle, body, body_length, topic, topic_length, properties


cdef bint lay_out(
    const uint8_t* p, Py_ssize_t left, bint check_crc, Layout* found
) noexcept nogil:
    """Whether a record stands at p, of which all lengths agree."""
    cdef int32_t size, length, sys_flag
    cdef uint32_t magic
    cdef Py_ssize_t wide
    if left < SHORTEST:
        return False
    size, magic, sys_flag = <int32_t>load32(p), load32(p + 4), <int32_t>load32(p + 36)
    if magic != FORMAT_1 and magic != FORMAT_2 or not SHORTEST <= size <= left:
        return False
    wide = 2 if magic == FORMAT_2 else 1
    found.size = size
    found.store_ms = 48 + (20 if sys_flag & 16 else 8)
    found.middle = found.store_ms + 8 + (20 if sys_flag & 32 else 8)
    found.body = found.middle + 16
    if found.body + wide + 2 > size:
        return False
    length = <int32_t>load32(p + found.middle + 12)
    if not 0 <= length <= size - found.body - wide - 2:
        return False
    found.body_length = length
    found.topic = found.body + length + wide
    length = <int16_t>load16(p + found.topic - 2) if wide == 2 else <int8_t>p[found.topic - 1]
    if not 0 <= length <= size - found.topic - 2:
        return False
    found.topic_length = length
    found.properties = found.topic + length + 2
    if <int16_t>load16(p + found.properties - 2) != size - found.properties:
        return False
    return (
        not check_crc
        or found.body_length == 0
        or crc_of(p + found.body, found.body_length) == <int32_t>load32(p + 8)
    )


def decode_all(data, bint check_crc=False):
    cdef list records = []
    cdef Py_ssize_t at = 0
    cdef Py_buffer view
    cdef const uint8_t* p
    cdef Layout place
    cdef str topic = None
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        while lay_out(<const uint8_t*>view.buf + at, view.len - at, check_crc, &place):
            p = <const uint8_t*>view.buf + at
            topic = text_at(p + place.topic, place.topic_length, topic)
            if topic is None:
                break
            records.append(new_tuple(Record, (
                <int64_t>load64(p + 28),
                <int32_t>load32(p),
                load32(p + 4),
                <int32_t>load32(p + 8),
                <int32_t>load32(p + 12),
                <int32_t>load32(p + 16),
                <int64_t>load64(p + 20),
                <int32_t>load32(p + 36),
                <int64_t>load64(p + 40),
                p[48:place.store_ms],
                <int64_t>load64(p + place.store_ms),
                p[place.store_ms + 8:place.middle],
                <int32_t>load32(p + place.middle),
                <int64_t>load64(p + place.middle + 4),
                p[place.body:place.body + place.body_length],
                topic,
                p[place.properties:place.size],
            )))
            at += place.size
        if at < view.len:
            records += plain.decode_all(memoryview(data)[at:], check_crc)  # says what is wrong
    finally:
        PyBuffer_Release(&view)
    return records


def walk(data, Py_ssize_t at, int64_t position, int64_t file_end):
    cdef list walked = []
    cdef Py_buffer view
    cdef const uint8_t* p
    cdef Layout place
    cdef Found found
    cdef str topic = None
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        while at >= 0 and lay_out(<const uint8_t*>view.buf + at, view.len - at, True, &place):
            p = <const uint8_t*>view.buf + at
            topic = text_at(p + place.topic, place.topic_length, topic)
            if (
                topic is None or place.size > file_end - position
                or <int64_t>load64(p + 28) != position
            ):
                break
            scan_properties(p + place.properties, place.size - place.properties, &found)
            walked.append((
                position, place.size, topic, <int32_t>load32(p + 12), <int64_t>load64(p + 20),
                found.tag_hash, <int64_t>load64(p + place.store_ms), <int32_t>load32(p + 36),
            ))
            at += place.size
            position += place.size
    finally:
        PyBuffer_Release(&view)
    rest, at, why = plain.walk(data, at, position, file_end)  # which says why it ends here
    return walked + rest, at, why
