"""The headers of SEND (10, 310, 320) and PULL (11, 361) in the form that clients really write.

A small JSON reader that only cuts: texts stay where they are, or go unescaped into the scratch.
It reads what is usual. All else it hands to the plain kernel, which says what that is.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING
from libc.stdint cimport int32_t, int64_t, uint8_t, uint32_t
from libc.string cimport memchr, memcmp, memcpy, memset, strlen

from cometmq.kernel.fast.frames cimport Edge, each, frame_at
from cometmq.kernel.fast.octets cimport load32, text_at

import cometmq.kernel.pure.headers as plain
from cometmq.kernel.pure.headers import (
    DELAY, INNER, KEYS, MEANING, NO_WAIT, ODD, OWN, TIMER, TRAN, UNIQUE, Pull, java_hash, scan,
)

cdef enum:
    MOST_FIELDS = 24  # the known ones are fewer, and a repeated or unknown one is odd anyway
    LONGEST = 4096  # longer headers are few
    REQUIRED = 8  # the first ones
    SEND_FIELDS = 13
    KNOWN_FIELDS = 18
    MEMBERS = 8

# Where a member stands in MEMBER_NAMES: numbers first, then extFields, then ignored texts.
cdef enum:
    CODE, OPAQUE, FLAG, VERSION, EXT_FIELDS

cdef const char* MEMBER_NAMES[MEMBERS]
MEMBER_NAMES[:] = [
    b"code", b"opaque", b"flag", b"version", b"extFields",
    b"language", b"remark", b"serializeTypeCurrentRPC",
]
# Those of a send in the order of the short names a to m. Behind them fields that change nothing
# about the request: broker name, stream type, zone. Any other unknown one (a signature, a
# namespace) may, so its request takes the generic lane.
cdef const char* FIELD_NAMES[KNOWN_FIELDS]
FIELD_NAMES[:] = [
    b"producerGroup", b"topic", b"defaultTopic", b"defaultTopicQueueNums", b"queueId", b"sysFlag",
    b"bornTimestamp", b"flag", b"properties", b"reconsumeTimes", b"unitMode",
    b"maxReconsumeTimes", b"batch", b"n", b"bname", b"ReqT", b"__ZONE_NAME", b"__ZONE_MODE",
]

# The properties that mean something to the broker, and which mark each sets.
cdef enum:
    INTERPRETED = 14
    MARK_OWN = 64
    MARK_ODD = 128

cdef enum:
    TAGS_AT, KEYS_AT, UNIQUE_AT, WAIT_AT, DELAY_AT, TRAN_AT  # the first ones in MEANING

cdef const char* PROPERTY_NAMES[INTERPRETED]
cdef int MARKS[INTERPRETED]
cdef bytes _name
for _place, _name in enumerate(MEANING):
    PROPERTY_NAMES[_place], MARKS[_place] = _name, MEANING[_name]

# Bytes that stand for themselves in a JSON string.
cdef uint8_t ORDINARY[256]
for _byte in range(256):
    ORDINARY[_byte] = _byte >= 0x20 and _byte != 0x22 and _byte != 0x5C


cdef struct Text:
    const uint8_t* at
    Py_ssize_t length


cdef struct Head:
    const uint8_t* end
    uint8_t* scratch
    bint wide  # a byte beyond ASCII was seen
    int32_t numbers[EXT_FIELDS]
    int fields
    Text names[MOST_FIELDS]
    Text values[MOST_FIELDS]


@cython.final
@cython.freelist(512)
cdef class Send:
    def __cinit__(self):
        self.properties = b""

    def __init__(self, *, bytes properties not None=b"", **fields):
        self.code, self.max_reconsume_times, self.position = 310, -1, -1
        self.group = self.topic = self.default_topic = ""
        self.body = b""
        for name, value in fields.items():
            setattr(self, name, value)
        self.rewrite(properties)

    cpdef rewrite(self, bytes properties):
        cdef Found found
        cdef Py_ssize_t length = len(properties)  # refuses None
        scan_properties(<uint8_t*>PyBytes_AS_STRING(properties), length, &found)
        self.properties, self.marks, self.tag_hash = properties, found.marks, found.tag_hash
        self.key_at, self.key_length = found.unique_at, found.unique_length

    @property
    def unique_key(self):
        return self.properties[self.key_at:self.key_at + self.key_length]

    end = plain.Send.end


cdef inline int find(Text* name, const char** names, int at, int end) noexcept nogil:
    while at < end:
        if names[at][0] == name.at[0] and strlen(names[at]) == <size_t>name.length:
            if memcmp(names[at], name.at, name.length) == 0:
                return at
        at += 1
    return -1


cdef inline bint is_true(const uint8_t* p, Py_ssize_t n) noexcept nogil:
    return n == 4 and load32(p) | 0x20202020 == 0x74727565  # the bit that small letters have


cdef inline bint no_delay(const uint8_t* p, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i = 1
    while i < n and c"0" <= p[i] <= c"9":
        i += 1
    return i == n and p[0] == (c"0" if n == 1 else c"-")


cdef int scan_properties(const uint8_t* p, Py_ssize_t n, Found* found) except -1:
    cdef const uint8_t* piece = p
    cdef const uint8_t* end = p + n
    cdef const uint8_t* stop
    cdef const uint8_t* value
    cdef const uint8_t* tag = p
    cdef Py_ssize_t tag_length = 0, length, i
    cdef Text name
    cdef int seen = 0, mark, place
    cdef uint32_t java = 0
    found.marks = 0
    found.unique_at = found.unique_length = 0
    while piece < end:
        stop = <const uint8_t*>memchr(piece, 2, end - piece)
        if stop == NULL:
            stop = end
        value = <const uint8_t*>memchr(piece, 1, stop - piece)
        if value == NULL or value == piece or value + 1 == stop:
            found.marks |= MARK_ODD
        else:
            name.at, name.length = piece, value - piece
            place = find(&name, PROPERTY_NAMES, 0, INTERPRETED)
            value += 1
            length = stop - value
            mark = 0
            if place < 0:
                if name.length >= 16 and memcmp(piece, b"__RMQ.TRANSIENT.", 16) == 0:
                    mark = MARK_OWN
            else:
                mark = MARKS[place]
                if seen >> place & 1:
                    found.marks |= MARK_ODD
                seen |= 1 << place
                if place == TAGS_AT:
                    tag, tag_length = value, length
                elif place == UNIQUE_AT:
                    found.unique_at, found.unique_length = value - p, length
            if not (
                place == WAIT_AT and is_true(value, length)
                or place == TRAN_AT and not is_true(value, length)
                or place == DELAY_AT and no_delay(value, length)
            ):
                found.marks |= mark
        piece = stop + 1
    for i in range(tag_length):
        if tag[i] >= 128:
            found.tag_hash = java_hash(tag[:tag_length])
            return 0
        java = java * 31 + tag[i]
    found.tag_hash = <int32_t>java
    return 0


cdef inline const uint8_t* blanks(const uint8_t* p, const uint8_t* end) noexcept nogil:
    while p < end and (p[0] == c" " or p[0] == c"\n" or p[0] == c"\r" or p[0] == c"\t"):
        p += 1
    return p


# The place in the header is handed on by value, NULL once something is odd: kept in the Head it
# would be written to memory and read back at every step.
cdef inline const uint8_t* past(
    const uint8_t* p, const uint8_t* end, uint8_t letter
) noexcept nogil:
    """Behind `letter`, which may have blanks in front; NULL if something else comes."""
    if p == NULL:
        return NULL
    p = blanks(p, end)
    return p + 1 if p < end and p[0] == letter else NULL


cdef const uint8_t* string(const uint8_t* p, Head* head, Text* text) noexcept nogil:
    """A JSON string; what it means is never longer than how it is written."""
    # Locals throughout: a byte that is written may be any byte, to the compiler those of head too.
    cdef const uint8_t* end = head.end
    cdef const uint8_t* run
    cdef uint8_t* out = head.scratch
    cdef uint8_t high = 0
    p = run = text.at = past(p, end, c'"')
    if p == NULL:
        return NULL
    while True:
        while p < end and ORDINARY[p[0]]:
            high |= p[0]
            p += 1
        if p >= end or p[0] != c'"' and p[0] != c"\\":
            return NULL
        if p[0] == c'"' and run == text.at:  # no escape in it: it stays where it is
            text.length = p - run
            break
        memcpy(out, run, p - run)
        out += p - run
        if p[0] == c'"':
            text.at, text.length = head.scratch, out - head.scratch
            head.scratch = out
            break
        if end - p >= 6 and memcmp(p + 1, b"u000", 4) == 0 and c"0" <= p[5] <= c"9":
            out[0] = p[5] - c"0"  # the separators of properties
            p += 6
        elif end - p >= 2 and (p[1] == c'"' or p[1] == c"\\" or p[1] == c"/"):
            out[0] = p[1]
            p += 2
        else:
            return NULL
        out += 1
        run = p
    head.wide |= high >> 7
    return p + 1


cdef bint number(Text* text, int64_t* result) noexcept nogil:
    """0, or up to 18 digits of which the first is not 0, with or without a minus."""
    cdef bint minus = text.length > 0 and text.at[0] == c"-"
    cdef Py_ssize_t i = minus
    cdef int64_t value = 0
    if not 0 < text.length - i <= 18 or text.at[i] == c"0" and text.length > 1:
        return False
    while i < text.length:
        if text.at[i] < c"0" or text.at[i] > c"9":
            return False
        value = value * 10 + (text.at[i] - c"0")
        i += 1
    result[0] = -value if minus else value
    return True


cdef inline bint whole(Text* text, int32_t* result, int32_t absent) noexcept nogil:
    cdef int64_t value = absent
    if text.at != NULL and not number(text, &value):
        return False
    result[0] = <int32_t>value
    return result[0] == value


cdef const uint8_t* literal(const uint8_t* p, const uint8_t* end, int32_t* result) noexcept nogil:
    """A JSON number without fraction and exponent."""
    cdef Text text
    p = text.at = blanks(p, end)
    while p < end and (p[0] == c"-" or c"0" <= p[0] <= c"9"):
        p += 1
    text.length = p - text.at
    return p if whole(&text, result, 0) else NULL


cdef const uint8_t* members(const uint8_t* p, Head* head, bint inner) noexcept nogil:
    """The header itself, or its extFields; NULL if anything about it is odd."""
    cdef const uint8_t* end = head.end
    cdef const uint8_t* next = past(p, end, c"{")
    cdef Text name, value
    cdef int which, seen = 0
    while True:
        p = past(string(next, head, &name), end, c":")
        if p == NULL or name.length == 0:
            return NULL
        if inner:
            p = string(p, head, &value)
            if head.fields == MOST_FIELDS:
                return NULL
            head.names[head.fields], head.values[head.fields] = name, value
            head.fields += 1
        else:
            which = find(&name, MEMBER_NAMES, 0, MEMBERS)
            if which < 0 or seen >> which & 1:
                return NULL
            seen |= 1 << which
            if which < EXT_FIELDS:
                p = literal(p, end, &head.numbers[which])
            elif which == EXT_FIELDS:
                p = members(p, head, True)
            else:
                p = string(p, head, &value)
        next = past(p, end, c",")
        if next == NULL:
            return past(p, end, c"}")


cdef bint cut(const uint8_t* p, Py_ssize_t length, uint8_t* scratch, Head* head) noexcept nogil:
    """The whole header into its members; False if anything about it is odd."""
    head.end, head.scratch = p + length, scratch
    head.fields = head.wide = 0
    memset(head.numbers, 0, sizeof(head.numbers))
    p = members(p, head, False)
    return p != NULL and blanks(p, head.end) == head.end


cdef bint sort(Head* head, Text* found) noexcept nogil:
    """Each field to its place; False if one is unknown or repeated, or a required one is empty."""
    cdef Text* name
    cdef int i, place
    memset(found, 0, KNOWN_FIELDS * sizeof(Text))
    for i in range(head.fields):
        name = &head.names[i]
        if head.numbers[CODE] == 10:
            place = find(name, FIELD_NAMES, 0, KNOWN_FIELDS)
        elif name.length == 1 and c"a" <= name.at[0] <= c"m":
            place = name.at[0] - c"a"
        else:
            place = find(name, FIELD_NAMES, SEND_FIELDS, KNOWN_FIELDS)
        if place < 0 or found[place].at != NULL:
            return False
        found[place] = head.values[i]
    for i in range(REQUIRED):
        if found[i].length == 0:
            return False
    return True


cdef Send send_of(Head* head, const uint8_t* body, Py_ssize_t length, Send before):
    cdef Text f[KNOWN_FIELDS]
    cdef Send send
    if not sort(head, f):
        return None
    send = Send.__new__(Send)
    if not (
        whole(&f[3], &send.default_topic_queues, 0)
        and whole(&f[4], &send.queue_id, 0)
        and whole(&f[5], &send.sys_flag, 0)
        and number(&f[6], &send.born_ms)
        and whole(&f[7], &send.message_flag, 0)
        and whole(&f[9], &send.reconsume_times, 0)
        and whole(&f[11], &send.max_reconsume_times, -1)
    ):
        return None
    send.code, send.opaque = head.numbers[CODE], head.numbers[OPAQUE]
    send.flag, send.version = head.numbers[FLAG], head.numbers[VERSION]
    send.position = -1
    if before is None:
        before = send
    send.group = text_at(f[0].at, f[0].length, before.group)
    send.topic = text_at(f[1].at, f[1].length, before.topic)
    send.default_topic = text_at(f[2].at, f[2].length, before.default_topic)
    send.unit_mode = is_true(f[10].at, f[10].length)
    send.batch = is_true(f[12].at, f[12].length)
    send.body = body[:length]
    if f[8].length:
        send.rewrite(f[8].at[:f[8].length])
    return send


cdef object pull_of(Head* head):
    cdef int i
    cdef dict fields = {
        text_at(head.names[i].at, head.names[i].length, None):
        text_at(head.values[i].at, head.values[i].length, None)
        for i in range(head.fields)
    }
    if len(fields) != head.fields:
        return None
    try:
        return plain.pull(([head.numbers[i] for i in range(EXT_FIELDS)], fields))
    except ValueError:
        return None


cdef object request_at(const uint8_t* p, Edge* edge, object before):
    """The send or pull that a whole frame is, else a Frame."""
    cdef uint8_t scratch[LONGEST]
    cdef Head head
    cdef const uint8_t* body = p + 8 + edge.header
    cdef int32_t code
    found = None
    if edge.codec == 0 and edge.header <= LONGEST and cut(p + 8, edge.header, scratch, &head):
        code = head.numbers[CODE]
        # A response has a result in its code, 10 and 11 are among them.
        if head.numbers[FLAG] & 1 or head.wide and text_at(p + 8, edge.header, None) is None:
            return frame_at(p, edge, None)
        if code == 10 or code == 310 or code == 320:
            before = before if type(before) is Send else None
            found = send_of(&head, body, edge.length - 4 - edge.header, before)
        elif code == 11 or code == 361:
            found = pull_of(&head)
        else:
            return frame_at(p, edge, None)
    return found or plain.typed(frame_at(p, edge, None), Send)


def requests(data, int64_t limit):
    return each(data, limit, request_at)
