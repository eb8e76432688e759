"""One pass over a property string, and Java's hash; compiled into the modules that need them."""

from cpython.unicode cimport PyUnicode_DecodeUTF8
from libc.stdint cimport int32_t, uint8_t, uint32_t
from libc.string cimport memchr, memcmp

from cometmq.kernel.fast.octets cimport load32

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

# Interpreted names, one after the other, the usual ones first; then their lengths, and which bit
# of the marks each sets (TAGS none of them).
cdef enum:
    INTERPRETED = 14
    TAGS_AT = 0
    UNIQUE_AT = 2


cdef struct Found:
    int marks
    int32_t tag_hash
    Py_ssize_t unique_at
    Py_ssize_t unique_length


cdef inline int interpreted(const uint8_t* name, Py_ssize_t n, int* mark) noexcept nogil:
    """The place of a name among the interpreted ones, -1 if it is none, and what it marks."""
    cdef const char* names = (
        b"TAGSKEYSUNIQ_KEYWAITDELAYTRAN_MSGINNER_NUMTIMER_DELAY_SECTIMER_DELAY_MS"
        b"TIMER_DELIVER_MSCLUSTERMSG_REGIONTRACE_ONPOP_CK"
    )
    cdef const char* lengths = b"\4\4\10\4\5\10\11\17\16\20\7\12\10\6"
    cdef const char* bits = b"\17\10\5\4\0\2\3\1\1\1\6\6\6\6"
    cdef int i
    for i in range(INTERPRETED):
        if lengths[i] == n and memcmp(names, name, n) == 0:
            mark[0] = 1 << bits[i] & 0x1FF
            return i
        names += lengths[i]
    mark[0] = OWN if n >= 16 and memcmp(name, b"__RMQ.TRANSIENT.", 16) == 0 else 0
    return -1


cdef inline bint is_true(const uint8_t* p, Py_ssize_t n) noexcept nogil:
    return n == 4 and load32(p) | 0x20202020 == 0x74727565  # the bit that small letters have


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
    cdef int seen = 0, mark, place
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
            place = interpreted(piece, value - piece, &mark)
            value += 1
            length = stop - value
            if place >= 0:
                if seen >> place & 1:
                    found.marks |= ODD
                seen |= 1 << place
                if place == TAGS_AT:
                    tag, tag_length = value, length
                elif place == UNIQUE_AT:
                    found.unique_at, found.unique_length = value - p, length
            if not (
                (mark == NO_WAIT and is_true(value, length))
                or (mark == TRAN and not is_true(value, length))
                or (mark == DELAY and no_delay(value, length))
            ):
                found.marks |= mark
        piece = stop + 1
    return java_hash_of(tag, tag_length, &found.tag_hash)
