"""Answers to sends and pulls (spec 01 ch. 3, 4), their members in the order of the original."""

from cpython.bytearray cimport PyByteArray_AS_STRING, PyByteArray_GET_SIZE, PyByteArray_Resize
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport strlen

from cometmq.kernel.fast.headers cimport Send
from cometmq.kernel.fast.octets cimport copy, put, store32

import cometmq.kernel.pure.replies as plain
from cometmq.kernel.pure.replies import VERSION, pulled

cdef enum:
    FIXED = 512  # more than a reply has besides remark, message id and unique key
    DIGITS = 20  # the longest number, with its minus


cdef inline uint8_t* text(uint8_t* p, const char* letters) noexcept nogil:
    return put(p, letters, strlen(letters))


cdef inline uint8_t* number(uint8_t* p, int64_t value) noexcept nogil:
    cdef uint8_t digits[DIGITS]
    cdef uint64_t rest = 0 - <uint64_t>value if value < 0 else <uint64_t>value
    cdef int at = DIGITS
    while rest or at == DIGITS:
        at -= 1
        digits[at] = c"0" + <uint8_t>(rest % 10)
        rest //= 10
    if value < 0:
        at -= 1
        digits[at] = c"-"
    return put(p, digits + at, DIGITS - at)


cdef inline uint8_t* hexadecimal(uint8_t* p, int64_t value) noexcept nogil:
    cdef const char* letters = b"0123456789ABCDEF"
    cdef int i
    for i in range(16):
        p[i] = letters[(value >> (60 - 4 * i)) & 15]
    return p + 16


cdef bint needs_no_escape(const uint8_t* p, Py_ssize_t length) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(length):
        if p[i] < 0x20 or p[i] >= 0x7F or p[i] == c'"' or p[i] == c"\\":
            return False
    return True


cdef uint8_t* put_sent(
    uint8_t* start, Send send, int32_t code, const uint8_t* key, bytes host_hex, bytes rest
) noexcept:
    cdef uint8_t* p = number(text(start + 8, b'{"code":'), code)
    p = number(text(p, b',"extFields":{"queueId":"'), send.queue_id)
    if send.key_length:
        p = put(text(p, b'","transactionId":"'), key, send.key_length)
    p = copy(text(p, b'","msgId":"'), host_hex)
    p = hexadecimal(p, send.position)
    p = text(p, b'","TRACE_ON":"true","MSG_REGION":"DefaultRegion","queueOffset":"')
    p = number(p, send.queue_offset)
    p = number(text(p, b'"},"flag":1,"language":"JAVA","opaque":'), send.opaque)
    p = copy(p, rest)
    store32(start, <uint32_t>(p - start - 4))
    store32(start + 4, <uint32_t>(p - start - 8))
    return p


def sent(sends, int32_t code, bytes host_hex not None, bytes remark not None=b""):
    cdef bytearray frames = bytearray()
    cdef bytes rest = b"," + plain.json_end(remark)
    cdef Py_ssize_t used = 0, room
    cdef const uint8_t* key
    cdef uint8_t* p
    cdef Send send
    for send in sends:
        if send is None:
            raise TypeError("a send expected, not None")
        if send.flag & 2:  # oneway
            continue
        key = <uint8_t*>PyBytes_AS_STRING(send.properties) + send.key_at
        if send.codec != 0 or not needs_no_escape(key, send.key_length):
            PyByteArray_Resize(frames, used)
            frames += plain.sent([send], code, host_hex, remark)
            used = len(frames)
            continue
        room = FIXED + send.key_length + len(host_hex) + len(rest)
        if PyByteArray_GET_SIZE(frames) - used < room:
            PyByteArray_Resize(frames, 2 * used + room)
        p = <uint8_t*>PyByteArray_AS_STRING(frames)
        used = put_sent(p + used, send, code, key, host_hex, rest) - p
    return PyByteArray_AS_STRING(frames)[:used]
