"""Answers to sends and pulls (spec 01 ch. 3, 4), their members in the order of the original."""

import json

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Realloc
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t, uint64_t
from libc.string cimport memcpy, strlen

from cometmq.kernel.fast.headers cimport Send
from cometmq.kernel.fast.octets cimport BUILT_FOR, store16, store32

ABI = BUILT_FOR
VERSION = 479

cdef enum:
    FIXED = 512  # more than a reply has besides remark, message id and unique key
    DIGITS = 20  # the longest number, with its minus

cdef const char* LETTERS = b"0123456789ABCDEF"


cdef struct Reply:
    # A growing buffer of whole frames, and the one that is being written at its end.
    uint8_t* data
    Py_ssize_t used, room
    Py_ssize_t start, fields
    int codec


cdef int reserve(Reply* r, Py_ssize_t more) except -1:
    cdef Py_ssize_t room
    cdef void* data
    if r.room - r.used < more:
        room = 2 * r.room + more
        data = PyMem_Realloc(r.data, room)
        if data == NULL:
            raise MemoryError
        r.data, r.room = <uint8_t*>data, room
    return 0


cdef inline void put(Reply* r, const void* data, Py_ssize_t length) noexcept nogil:
    memcpy(r.data + r.used, data, length)
    r.used += length


cdef inline void literal(Reply* r, const char* text) noexcept nogil:
    put(r, text, strlen(text))


cdef inline void put16(Reply* r, uint32_t value) noexcept nogil:
    store16(r.data + r.used, value)
    r.used += 2


cdef inline void put32(Reply* r, uint32_t value) noexcept nogil:
    store32(r.data + r.used, value)
    r.used += 4


cdef inline Py_ssize_t decimal(int64_t value, uint8_t* last) noexcept nogil:
    """Writes the number so that it ends before `last`; returns its length."""
    cdef uint64_t rest = 0 - <uint64_t>value if value < 0 else <uint64_t>value
    cdef uint8_t* p = last
    while True:
        p -= 1
        p[0] = c"0" + <uint8_t>(rest % 10)
        rest //= 10
        if rest == 0:
            break
    if value < 0:
        p -= 1
        p[0] = c"-"
    return last - p


cdef inline void put_number(Reply* r, int64_t value) noexcept nogil:
    cdef uint8_t digits[DIGITS]
    cdef Py_ssize_t length = decimal(value, digits + DIGITS)
    put(r, digits + DIGITS - length, length)


cdef inline void name_field(Reply* r, const char* name, Py_ssize_t length) noexcept nogil:
    """What stands in front of a value of so many bytes."""
    if r.codec == 0:
        literal(r, b',"' if r.fields else b'"')
        literal(r, name)
        literal(r, b'":')
    else:
        put16(r, <uint32_t>strlen(name))
        literal(r, name)
        put32(r, <uint32_t>length)
    r.fields += 1


cdef inline void field(Reply* r, const char* name, const void* value, Py_ssize_t n) noexcept nogil:
    """A value that needs no escapes."""
    name_field(r, name, n)
    if r.codec == 0:
        literal(r, b'"')
    put(r, value, n)
    if r.codec == 0:
        literal(r, b'"')


cdef inline void number(Reply* r, const char* name, int64_t value) noexcept nogil:
    cdef uint8_t digits[DIGITS]
    cdef Py_ssize_t length = decimal(value, digits + DIGITS)
    field(r, name, digits + DIGITS - length, length)


cdef inline void text(Reply* r, const char* name, const char* value) noexcept nogil:
    field(r, name, value, strlen(value))


cdef bytes quoted(bytes raw):
    """A JSON string, with its quotes."""
    return json.dumps(raw.decode("utf-8", "replace"), ensure_ascii=False).encode()


cdef bint plain(const uint8_t* p, Py_ssize_t length) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(length):
        if p[i] < 0x20 or p[i] >= 0x7F or p[i] == c'"' or p[i] == c"\\":
            return False
    return True


cdef void begin(Reply* r, int codec, int32_t code, int32_t opaque, bytes remark) noexcept:
    r.codec, r.start, r.fields = codec, r.used, 0
    r.used += 8  # the lengths, once they are known
    if codec == 0:
        literal(r, b'{"code":')
        put_number(r, code)
        literal(r, b',"extFields":{')
        return
    put16(r, <uint32_t>code)
    r.data[r.used] = 0  # JAVA
    r.used += 1
    put16(r, 479)
    put32(r, <uint32_t>opaque)
    put32(r, 1)
    put32(r, <uint32_t>PyBytes_GET_SIZE(remark))
    put(r, PyBytes_AS_STRING(remark), PyBytes_GET_SIZE(remark))
    put32(r, <uint32_t>r.used)  # the length of what follows, once it is known


cdef void finish(
    Reply* r, int32_t opaque, Py_ssize_t remark, bytes quoted_remark, uint32_t body_length
) noexcept:
    cdef Py_ssize_t fields
    cdef uint32_t length
    if r.codec == 0:
        literal(r, b'},"flag":1,"language":"JAVA","opaque":')
        put_number(r, opaque)
        if remark:
            literal(r, b',"remark":')
            put(r, PyBytes_AS_STRING(quoted_remark), PyBytes_GET_SIZE(quoted_remark))
        literal(r, b',"serializeTypeCurrentRPC":"JSON","version":479}')
    else:
        fields = r.start + 8 + 21 + remark
        store32(r.data + fields - 4, <uint32_t>(r.used - fields))
    length = <uint32_t>(r.used - r.start - 8)
    store32(r.data + r.start, 4 + length + body_length)
    store32(r.data + r.start + 4, <uint32_t>r.codec << 24 | length)


cdef void put_message_id(Reply* r, bytes host_hex, int64_t position) noexcept:
    cdef int i
    cdef Py_ssize_t length = PyBytes_GET_SIZE(host_hex)
    name_field(r, b"msgId", length + 16)
    if r.codec == 0:
        literal(r, b'"')
    put(r, PyBytes_AS_STRING(host_hex), length)
    for i in range(16):
        r.data[r.used + i] = LETTERS[(position >> (60 - 4 * i)) & 15]
    r.used += 16
    if r.codec == 0:
        literal(r, b'"')


cdef inline void put_key(Reply* r, const uint8_t* key, Py_ssize_t length, bint ready) noexcept:
    """The transaction id; `ready` says that it brings its own quotes and escapes."""
    if ready:
        name_field(r, b"transactionId", length)
        put(r, key, length)
    elif length:
        field(r, b"transactionId", key, length)


cdef int put_sent(
    Reply* r, Send send, int32_t code, bytes host_hex, bytes remark, bytes quoted_remark
) except -1:
    cdef bytes owner = send.text if send.own_key is None else send.own_key
    cdef const uint8_t* key = <const uint8_t*>PyBytes_AS_STRING(owner)
    cdef Py_ssize_t length = PyBytes_GET_SIZE(owner)
    cdef bint ready = False
    if send.own_key is None:
        key += send.key_at
        length = send.key_length
    if send.codec == 0 and not plain(key, length):  # its bytes are the client's
        owner = quoted(PyBytes_FromStringAndSize(<char*>key, length))
        key, length = <const uint8_t*>PyBytes_AS_STRING(owner), PyBytes_GET_SIZE(owner)
        ready = True
    reserve(
        r,
        FIXED + length + PyBytes_GET_SIZE(host_hex) + PyBytes_GET_SIZE(remark)
        + PyBytes_GET_SIZE(quoted_remark),
    )
    begin(r, send.codec, code, send.opaque, remark)
    if send.codec == 0:
        number(r, b"queueId", send.queue_id)
        put_key(r, key, length, ready)
        put_message_id(r, host_hex, send.position)
        text(r, b"TRACE_ON", b"true")
        text(r, b"MSG_REGION", b"DefaultRegion")
        number(r, b"queueOffset", send.queue_offset)
    else:
        put_message_id(r, host_hex, send.position)
        number(r, b"queueId", send.queue_id)
        number(r, b"queueOffset", send.queue_offset)
        put_key(r, key, length, False)
        text(r, b"TRACE_ON", b"true")
        text(r, b"MSG_REGION", b"DefaultRegion")
    finish(r, send.opaque, PyBytes_GET_SIZE(remark), quoted_remark, 0)
    return 0


def sent(sends, int32_t code, bytes host_hex not None, bytes remark not None=b""):
    """The answers to all sends that want one, back to back, each in the codec of its send."""
    cdef Reply reply
    cdef Send send
    cdef bytes quoted_remark = quoted(remark) if remark else b""
    reply.data = NULL
    reply.used = reply.room = 0
    try:
        for send in sends:
            if send is None:
                raise TypeError("a send expected, not None")
            if not send.flag & 2:  # else it is oneway
                put_sent(&reply, send, code, host_hex, remark, quoted_remark)
        return PyBytes_FromStringAndSize(<char*>reply.data, reply.used) if reply.used else b""
    finally:
        PyMem_Free(reply.data)


def pulled(
    int codec, int32_t opaque, int32_t code, bytes remark not None, int64_t suggested,
    int64_t next, int64_t min, int64_t max, int32_t body_length,
):
    """The answer to a pull up to its body, which has to follow with exactly that length."""
    cdef Reply reply
    cdef bytes quoted_remark = quoted(remark) if remark else b""
    reply.data = NULL
    reply.used = reply.room = 0
    try:
        reserve(&reply, FIXED + PyBytes_GET_SIZE(remark) + PyBytes_GET_SIZE(quoted_remark))
        begin(&reply, codec, code, opaque, remark)
        number(&reply, b"suggestWhichBrokerId", suggested)
        if codec == 0:
            text(&reply, b"groupSysFlag", b"0")
            number(&reply, b"nextBeginOffset", next)
            number(&reply, b"maxOffset", max)
            number(&reply, b"minOffset", min)
            text(&reply, b"topicSysFlag", b"0")
        else:
            number(&reply, b"nextBeginOffset", next)
            number(&reply, b"minOffset", min)
            number(&reply, b"maxOffset", max)
            text(&reply, b"topicSysFlag", b"0")
            text(&reply, b"groupSysFlag", b"0")
        finish(&reply, opaque, PyBytes_GET_SIZE(remark), quoted_remark, <uint32_t>body_length)
        return PyBytes_FromStringAndSize(<char*>reply.data, reply.used)
    finally:
        PyMem_Free(reply.data)
