"""One pass over a property string, and Java's hash; compiled into the modules that need them."""

from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.string cimport memchr, memcmp

cdef enum:
    DELAY = 1
    TIMER = 2
    TRAN = 4
    INNER = 8
    NO_WAIT = 16
    UNIQUE = 32
    OWN = 64
    ODD = 128
    KEYS = 256

# Each interpreted name, as a bit; a second occurrence is what makes a string ODD.
cdef enum:
    IS_TAGS = 1
    IS_KEYS = 2
    IS_UNIQ_KEY = 4
    IS_WAIT = 8
    IS_DELAY = 16
    IS_TRAN_MSG = 32
    IS_INNER_NUM = 64
    IS_TIMER_DELAY_SEC = 128
    IS_TIMER_DELAY_MS = 256
    IS_TIMER_DELIVER_MS = 512
    IS_CLUSTER = 1024
    IS_MSG_REGION = 2048
    IS_TRACE_ON = 4096
    IS_POP_CK = 8192
    IS_TRANSIENT = 16384


cdef struct Found:
    int marks
    int32_t tag_hash
    Py_ssize_t unique_at
    Py_ssize_t unique_length


cdef inline int name_bit(const uint8_t* name, Py_ssize_t n) noexcept nogil:
    if n == 4:
        if memcmp(name, b"TAGS", 4) == 0:
            return IS_TAGS
        if memcmp(name, b"KEYS", 4) == 0:
            return IS_KEYS
        if memcmp(name, b"WAIT", 4) == 0:
            return IS_WAIT
    elif n == 8:
        if memcmp(name, b"UNIQ_KEY", 8) == 0:
            return IS_UNIQ_KEY
        if memcmp(name, b"TRAN_MSG", 8) == 0:
            return IS_TRAN_MSG
        if memcmp(name, b"TRACE_ON", 8) == 0:
            return IS_TRACE_ON
    elif n == 5:
        if memcmp(name, b"DELAY", 5) == 0:
            return IS_DELAY
    elif n == 6:
        if memcmp(name, b"POP_CK", 6) == 0:
            return IS_POP_CK
    elif n == 7:
        if memcmp(name, b"CLUSTER", 7) == 0:
            return IS_CLUSTER
    elif n == 9:
        if memcmp(name, b"INNER_NUM", 9) == 0:
            return IS_INNER_NUM
    elif n == 10:
        if memcmp(name, b"MSG_REGION", 10) == 0:
            return IS_MSG_REGION
    elif n == 14:
        if memcmp(name, b"TIMER_DELAY_MS", 14) == 0:
            return IS_TIMER_DELAY_MS
    elif n == 15:
        if memcmp(name, b"TIMER_DELAY_SEC", 15) == 0:
            return IS_TIMER_DELAY_SEC
    elif n >= 16:
        if n == 16 and memcmp(name, b"TIMER_DELIVER_MS", 16) == 0:
            return IS_TIMER_DELIVER_MS
        if memcmp(name, b"__RMQ.TRANSIENT.", 16) == 0:
            return IS_TRANSIENT
    return 0


cdef inline bint is_true(const uint8_t* p, Py_ssize_t n) noexcept nogil:
    return (
        n == 4
        and (p[0] | 32) == c"t"
        and (p[1] | 32) == c"r"
        and (p[2] | 32) == c"u"
        and (p[3] | 32) == c"e"
    )


cdef inline bint no_delay(const uint8_t* p, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i
    if n == 1:
        return p[0] == c"0"
    if p[0] != c"-":
        return False
    for i in range(1, n):
        if p[i] < c"0" or p[i] > c"9":
            return False
    return True


cdef inline int mark_of(int bit, const uint8_t* value, Py_ssize_t n) noexcept nogil:
    if bit & IS_TAGS:
        return 0
    if bit & IS_KEYS:
        return KEYS
    if bit & IS_UNIQ_KEY:
        return UNIQUE
    if bit & IS_WAIT:
        return 0 if is_true(value, n) else NO_WAIT
    if bit & IS_DELAY:
        return 0 if no_delay(value, n) else DELAY
    if bit & IS_TRAN_MSG:
        return TRAN if is_true(value, n) else 0
    if bit & IS_INNER_NUM:
        return INNER
    if bit & (IS_TIMER_DELAY_SEC | IS_TIMER_DELAY_MS | IS_TIMER_DELIVER_MS):
        return TIMER
    return OWN


cdef inline int java_hash_of(const uint8_t* p, Py_ssize_t n, int32_t* result) except -1:
    """Over UTF-16 units, so that a letter beyond the first plane counts as two."""
    cdef uint32_t value = 0, unit
    cdef Py_ssize_t i
    for i in range(n):
        if p[i] >= 128:
            break
        value = value * 31 + p[i]
    else:
        result[0] = <int32_t>value
        return 0
    value = 0
    for letter in PyUnicode_DecodeUTF8(<char*>p, n, b"replace"):
        unit = ord(letter)
        if unit >= 0x10000:
            value = value * 31 + 0xD800 + ((unit - 0x10000) >> 10)
            unit = 0xDC00 + (unit & 0x3FF)
        value = value * 31 + unit
    result[0] = <int32_t>value
    return 0


cdef inline int scan_properties(const uint8_t* p, Py_ssize_t n, Found* found) except -1:
    cdef const uint8_t* piece = p
    cdef const uint8_t* end = p + n
    cdef const uint8_t* stop
    cdef const uint8_t* value
    cdef const uint8_t* tag = p
    cdef Py_ssize_t tag_length = 0, length
    cdef int seen = 0, bit
    found.marks = 0
    found.unique_at = found.unique_length = 0
    while piece < end:
        stop = <const uint8_t*>memchr(piece, 2, end - piece)
        if stop == NULL:
            stop = end
        value = <const uint8_t*>memchr(piece, 1, stop - piece)
        if value == NULL or value == piece or value + 1 == stop:
            found.marks |= ODD
        else:
            bit = name_bit(piece, value - piece)
            if bit:
                value += 1
                length = stop - value
                if seen & bit & ~IS_TRANSIENT:
                    found.marks |= ODD
                seen |= bit
                found.marks |= mark_of(bit, value, length)
                if bit == IS_TAGS:
                    tag, tag_length = value, length
                elif bit == IS_UNIQ_KEY:
                    found.unique_at, found.unique_length = value - p, length
        piece = stop + 1
    return java_hash_of(tag, tag_length, &found.tag_hash)
