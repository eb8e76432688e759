"""The headers of SEND (10, 310, 320) and PULL (11, 361) in the form that clients really write.

A small JSON reader that only cuts: texts stay where they are, or go unescaped into the scratch.
It reads what is usual. All else it hands to the plain kernel, which says what that is.
"""

cimport cython
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize
from libc.stdint cimport INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, int32_t, int64_t
from libc.stdint cimport uint8_t, uint64_t
from libc.string cimport memcmp, memcpy, strlen

from cometmq.kernel.fast.frames cimport Edge, each, frame_at
from cometmq.kernel.fast.octets cimport BUILT_FOR, text_at
from cometmq.kernel.fast.properties cimport Found, is_true, scan_properties

import cometmq.kernel.pure.headers as plain
from cometmq.kernel.pure.headers import Pull

ABI = BUILT_FOR

cdef enum:
    MOST_FIELDS = 24  # the known ones are fewer, and a repeated or unknown one is odd anyway
    LONGEST = 4096  # longer headers are few
    SEND_FIELDS = 13
    REQUIRED = 8  # the first ones
    IGNORED_FIELDS = 5
    MEMBERS = 8

# Where a member stands in MEMBER_NAMES: numbers first, then extFields, then ignored texts.
cdef enum:
    CODE, OPAQUE, FLAG, VERSION, EXT_FIELDS

cdef const char* MEMBER_NAMES[MEMBERS]
MEMBER_NAMES[:] = [
    b"code", b"opaque", b"flag", b"version", b"extFields",
    b"language", b"remark", b"serializeTypeCurrentRPC",
]
# The order of the short names a to m.
cdef const char* SEND_NAMES[SEND_FIELDS]
SEND_NAMES[:] = [
    b"producerGroup", b"topic", b"defaultTopic", b"defaultTopicQueueNums", b"queueId", b"sysFlag",
    b"bornTimestamp", b"flag", b"properties", b"reconsumeTimes", b"unitMode",
    b"maxReconsumeTimes", b"batch",
]
# Fields that change nothing about the request: broker name, stream type, zone. Any other unknown
# one (a signature, a namespace) may, so its request takes the generic lane.
cdef const char* IGNORED[IGNORED_FIELDS]
IGNORED[:] = [b"n", b"bname", b"ReqT", b"__ZONE_NAME", b"__ZONE_MODE"]

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
    """A send, from its decoding to its reply; staging fills in where it went."""

    def __cinit__(self):
        self.text = b""

    def __init__(self, *, bytes properties not None=b"", **fields):
        self.code, self.max_reconsume_times, self.position = 310, -1, -1
        self.group = self.topic = self.default_topic = ""
        self.body = b""
        for name, value in fields.items():
            setattr(self, name, value)
        self.rewrite(properties)

    cpdef rewrite(self, bytes properties):
        """Another property string, from which marks, tag hash and unique key are read anew."""
        cdef Found found
        cdef Py_ssize_t length = len(properties)  # refuses None
        scan_properties(<uint8_t*>PyBytes_AS_STRING(properties), length, &found)
        self.text = properties
        self.own_key = None
        self.marks, self.tag_hash = found.marks, found.tag_hash
        self.key_at, self.key_length = found.unique_at, found.unique_length

    @property
    def properties(self):
        """The property string."""
        return self.text

    @property
    def unique_key(self):
        """The client's id of the message, b"" if it gave none."""
        if self.own_key is None:
            self.own_key = self.text[self.key_at:self.key_at + self.key_length]
        return self.own_key

    @unique_key.setter
    def unique_key(self, bytes key not None):
        self.own_key = key

    end = plain.Send.end


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


cdef bint number(Text* text, int64_t low, int64_t high, int64_t* result) noexcept nogil:
    """0, or digits of which the first is not 0, with or without a minus."""
    cdef bint minus = text.length > 0 and text.at[0] == c"-"
    cdef Py_ssize_t i = minus
    cdef uint64_t value = 0
    if not 0 < text.length - i <= 19:
        return False
    if text.at[i] == c"0" and text.length > 1:
        return False
    while i < text.length:
        if text.at[i] < c"0" or text.at[i] > c"9":
            return False
        value = value * 10 + (text.at[i] - c"0")
        i += 1
    if value > <uint64_t>INT64_MAX + minus:
        return False
    # The subtraction keeps the smallest number out of signed overflow.
    result[0] = -1 - <int64_t>(value - 1) if minus else <int64_t>value
    return low <= result[0] <= high


cdef const uint8_t* literal(const uint8_t* p, const uint8_t* end, int32_t* result) noexcept nogil:
    """A JSON number without fraction and exponent."""
    cdef Text text
    cdef int64_t value = 0
    p = text.at = blanks(p, end)
    while p < end and (p[0] == c"-" or c"0" <= p[0] <= c"9"):
        p += 1
    text.length = p - text.at
    if not number(&text, INT32_MIN, INT32_MAX, &value):
        return NULL
    result[0] = <int32_t>value
    return p


cdef inline int find(Text* name, const char** names, int count) noexcept nogil:
    cdef int i
    for i in range(count):
        if names[i][0] == name.at[0] and strlen(names[i]) == <size_t>name.length:
            if memcmp(names[i], name.at, name.length) == 0:
                return i
    return -1


cdef const uint8_t* ext_fields(const uint8_t* p, Head* head) noexcept nogil:
    cdef const uint8_t* end = head.end
    cdef const uint8_t* next
    p = past(p, end, c"{")
    next = past(p, end, c"}")
    if next != NULL:
        return next
    while head.fields < MOST_FIELDS:
        p = string(p, head, &head.names[head.fields])
        p = string(past(p, end, c":"), head, &head.values[head.fields])
        if p == NULL or head.names[head.fields].length == 0:
            return NULL
        head.fields += 1
        next = past(p, end, c",")
        if next == NULL:
            return past(p, end, c"}")
        p = next
    return NULL


cdef bint cut(const uint8_t* p, Py_ssize_t length, uint8_t* scratch, Head* head) noexcept nogil:
    """The whole header into its members; False if anything about it is odd."""
    cdef const uint8_t* end = p + length
    cdef const uint8_t* next
    cdef Text text
    cdef int which, seen = 0
    head.end, head.scratch = end, scratch
    head.fields = head.wide = 0
    head.numbers[0] = head.numbers[1] = head.numbers[2] = head.numbers[3] = 0
    next = past(p, end, c"{")
    while next != NULL:
        p = past(string(next, head, &text), end, c":")
        if p == NULL or text.length == 0:
            return False
        which = find(&text, MEMBER_NAMES, MEMBERS)
        if which < 0 or seen >> which & 1:
            return False
        seen |= 1 << which
        if which < EXT_FIELDS:
            p = literal(p, end, &head.numbers[which])
        elif which == EXT_FIELDS:
            p = ext_fields(p, head)
        else:
            p = string(p, head, &text)
        next = past(p, end, c",")
    p = past(p, end, c"}")
    return p != NULL and blanks(p, end) == end


cdef bint sort(Head* head, Text* found) noexcept nogil:
    """Each field of a send to its place among the names or, behind those, the ignored ones; False
    for an unknown or repeated one, or where a required one is missing or empty.
    """
    cdef int i, place
    cdef Text* name
    for i in range(SEND_FIELDS + IGNORED_FIELDS):
        found[i].at, found[i].length = NULL, 0
    for i in range(head.fields):
        name = &head.names[i]
        if head.numbers[CODE] == 10:
            place = find(name, SEND_NAMES, SEND_FIELDS)
        else:
            place = name.at[0] - c"a" if name.length == 1 else -1
        if not 0 <= place < SEND_FIELDS:
            place = find(name, IGNORED, IGNORED_FIELDS)
            if place < 0:
                return False
            place += SEND_FIELDS
        if found[place].at != NULL:
            return False
        found[place] = head.values[i]
    for i in range(REQUIRED):
        if found[i].length == 0:
            return False
    return True


cdef inline bint whole(Text* text, int32_t* result, int32_t absent) noexcept nogil:
    cdef int64_t value = absent
    if text.at != NULL and not number(text, INT32_MIN, INT32_MAX, &value):
        return False
    result[0] = <int32_t>value
    return True


cdef Send send_of(Head* head, const uint8_t* body, Py_ssize_t length, Send before):
    cdef Text f[SEND_FIELDS + IGNORED_FIELDS]
    cdef Send send
    if not sort(head, f):
        return None
    send = Send.__new__(Send)
    if not (
        whole(&f[3], &send.default_topic_queues, 0)
        and whole(&f[4], &send.queue_id, 0)
        and whole(&f[5], &send.sys_flag, 0)
        and number(&f[6], INT64_MIN, INT64_MAX, &send.born_ms)
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
    send.body = PyBytes_FromStringAndSize(<char*>body, length)
    if f[8].length:
        send.rewrite(PyBytes_FromStringAndSize(<char*>f[8].at, f[8].length))
    return send


cdef object pull_of(Head* head):
    cdef dict fields = {}
    cdef Text name, value
    cdef int i
    for i in range(head.fields):
        name, value = head.names[i], head.values[i]
        fields[text_at(name.at, name.length, None)] = text_at(value.at, value.length, None)
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
    cdef object found = None
    if edge.codec == 0 and edge.header <= LONGEST and cut(p + 8, edge.header, scratch, &head):
        code = head.numbers[CODE]
        # A response has a result in its code, 10 and 11 are among them.
        if head.numbers[FLAG] & 1 or head.wide and text_at(p + 8, edge.header, None) is None:
            return frame_at(p, edge, None)
        if code == 10 or code == 310 or code == 320:
            found = send_of(
                &head, body, edge.length - 4 - edge.header, before if type(before) is Send else None
            )
        elif code == 11 or code == 361:
            found = pull_of(&head)
        else:
            return frame_at(p, edge, None)
    return plain.typed(frame_at(p, edge, None), Send) if found is None else found


def requests(data, int64_t limit):
    """Like `frames.split`, with sends and pulls decoded."""
    return each(data, limit, request_at)
