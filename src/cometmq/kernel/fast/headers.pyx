"""The headers of SEND (10, 310, 320) and PULL (11, 361) in the form that clients really write.

A small JSON reader that only cuts: texts stay where they are, or go unescaped into the scratch.
What it cannot read, or finds odd, is None: then the frame goes on undecoded.
"""

cimport cython
from cpython.buffer cimport PyBUF_SIMPLE, PyBuffer_Release, PyObject_GetBuffer
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_DecodeUTF8
from libc.stdint cimport INT32_MAX, INT32_MIN, INT64_MAX, INT64_MIN, int32_t, int64_t
from libc.stdint cimport uint8_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy, strlen

from cometmq.kernel.fast.frames cimport Edge, Frame, edge, frame_at
from cometmq.kernel.fast.octets cimport BUILT_FOR
from cometmq.kernel.fast.properties cimport Found, is_true, scan_properties

from cometmq.kernel.faults import Malformed

ABI = BUILT_FOR

cdef enum:
    MOST_FIELDS = 24  # the known ones are fewer, and a repeated or unknown one is odd anyway
    STACK = 4096  # longer headers need a scratch of their own
    SEND_FIELDS = 13
    PULL_FIELDS = 14
    IGNORED_FIELDS = 5
    MEMBERS = 8

# Where a member stands in MEMBER_NAMES: numbers first, then extFields, then ignored texts.
cdef enum:
    CODE = 0
    OPAQUE = 1
    FLAG = 2
    VERSION = 3
    EXT_FIELDS = 4

cdef const char* MEMBER_NAMES[MEMBERS]
MEMBER_NAMES[:] = [
    b"code", b"opaque", b"flag", b"version", b"extFields",
    b"language", b"remark", b"serializeTypeCurrentRPC",
]
# The order of the short names a to m; the first eight are required.
cdef const char* SEND_NAMES[SEND_FIELDS]
SEND_NAMES[:] = [
    b"producerGroup", b"topic", b"defaultTopic", b"defaultTopicQueueNums", b"queueId", b"sysFlag",
    b"bornTimestamp", b"flag", b"properties", b"reconsumeTimes", b"unitMode",
    b"maxReconsumeTimes", b"batch",
]
cdef const char* PULL_NAMES[PULL_FIELDS]
PULL_NAMES[:] = [
    b"consumerGroup", b"topic", b"queueId", b"queueOffset", b"maxMsgNums", b"sysFlag",
    b"commitOffset", b"suspendTimeoutMillis", b"subscription", b"subVersion", b"expressionType",
    b"maxMsgBytes", b"requestSource", b"proxyFrowardClientId",
]
# A name, a text, an int or a long; capitals are required.
cdef const char* PULL_KINDS = b"NNILIILLtLtiit"
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


cdef struct Reader:
    const uint8_t* end
    uint8_t* scratch
    bint wide  # a byte beyond ASCII was seen


cdef struct Head:
    int32_t numbers[4]
    int fields
    Text names[MOST_FIELDS]
    Text values[MOST_FIELDS]


@cython.final
@cython.freelist(512)
cdef class Send:
    """A send, from its decoding to its reply; staging fills in where it went."""

    def __init__(
        self, *, int32_t code=310, int32_t codec=0, int32_t opaque=0, int32_t flag=0,
        int32_t version=0, str group not None="", str topic not None="",
        str default_topic not None="", int32_t default_topic_queues=0, int32_t queue_id=0,
        int32_t sys_flag=0, int64_t born_ms=0, int32_t message_flag=0,
        bytes properties not None=b"", int32_t reconsume_times=0, bint unit_mode=False,
        int32_t max_reconsume_times=-1, bint batch=False, bytes body not None=b"",
        int64_t prepared_offset=0,
    ):
        self.code, self.codec, self.opaque, self.flag = code, codec, opaque, flag
        self.version, self.group, self.topic = version, group, topic
        self.default_topic, self.default_topic_queues = default_topic, default_topic_queues
        self.queue_id, self.sys_flag, self.born_ms = queue_id, sys_flag, born_ms
        self.message_flag, self.reconsume_times = message_flag, reconsume_times
        self.unit_mode, self.max_reconsume_times = unit_mode, max_reconsume_times
        self.batch, self.body, self.prepared_offset = batch, body, prepared_offset
        self.position = -1
        self.read(properties)

    cdef int read(self, bytes properties) except -1:
        cdef Found found
        scan_properties(
            <uint8_t*>PyBytes_AS_STRING(properties), PyBytes_GET_SIZE(properties), &found
        )
        self.text = properties
        self.own_key = None
        self.marks, self.tag_hash = found.marks, found.tag_hash
        self.key_at, self.key_length = found.unique_at, found.unique_length
        return 0

    @property
    def properties(self):
        """The property string; setting it reads marks, tag hash and unique key from it anew."""
        return self.text

    @properties.setter
    def properties(self, bytes properties not None):
        self.read(properties)

    @property
    def unique_key(self):
        """The client's id of the message, b"" if it gave none."""
        if self.own_key is None:
            self.own_key = self.text[self.key_at:self.key_at + self.key_length]
        return self.own_key

    @unique_key.setter
    def unique_key(self, bytes key not None):
        self.own_key = key

    @property
    def end(self):
        """Where its record ends: what a watermark has to pass."""
        return self.position + self.size


@cython.final
cdef class Pull:
    """A pull; `fields` in the order of protocol's PullMessage, an absent one is None."""

    def __init__(self, int32_t code, int32_t codec, int32_t opaque, int32_t flag, int32_t version,
                 tuple fields not None):
        self.code, self.codec, self.opaque, self.flag = code, codec, opaque, flag
        self.version, self.fields = version, fields


# The place in the header is handed on by value, NULL once something is odd: kept in the Reader it
# would be written to memory and read back at every step.
cdef inline const uint8_t* past(
    const uint8_t* p, const uint8_t* end, uint8_t letter
) noexcept nogil:
    """Behind `letter`, which may have blanks in front; NULL if something else comes."""
    if p == NULL:
        return NULL
    while p < end and p[0] != letter:
        if p[0] != c" " and p[0] != c"\n" and p[0] != c"\r" and p[0] != c"\t":
            return NULL
        p += 1
    return p + 1 if p < end else NULL


cdef int32_t hexadecimal(const uint8_t* p, const uint8_t* end) noexcept nogil:
    cdef int32_t value = 0, digit
    cdef int i
    if end - p < 4:
        return -1
    for i in range(4):
        digit = p[i]
        if c"0" <= digit <= c"9":
            digit -= c"0"
        elif c"a" <= (digit | 32) <= c"f":
            digit = (digit | 32) - c"a" + 10
        else:
            return -1
        value = value << 4 | digit
    return value


cdef const uint8_t* escaped(const uint8_t* p, const uint8_t* end, uint8_t** out) noexcept nogil:
    """Writes what the escape at p (behind the backslash) means; returns its end, NULL if odd."""
    cdef int32_t letter, low
    cdef uint8_t* o = out[0]
    if p >= end:
        return NULL
    letter = p[0]
    p += 1
    if letter == c"u":
        if end - p >= 4 and memcmp(p, b"000", 3) == 0 and c"0" <= p[3] <= c"9":
            out[0][0] = p[3] - c"0"  # the separators of properties
            out[0] += 1
            return p + 4
        letter = hexadecimal(p, end)
        p += 4
        if letter < 0 or 0xDC00 <= letter < 0xE000:
            return NULL
        if letter >= 0xD800 and letter < 0xDC00:
            if end - p < 6 or p[0] != c"\\" or p[1] != c"u":
                return NULL
            low = hexadecimal(p + 2, end)
            if not 0xDC00 <= low < 0xE000:
                return NULL
            letter = 0x10000 + ((letter - 0xD800) << 10) + (low - 0xDC00)
            p += 6
    elif letter == c"n":
        letter = 10
    elif letter == c"r":
        letter = 13
    elif letter == c"t":
        letter = 9
    elif letter == c"b":
        letter = 8
    elif letter == c"f":
        letter = 12
    elif letter != c'"' and letter != c"\\" and letter != c"/":
        return NULL
    if letter < 0x80:
        o[0] = letter
        out[0] = o + 1
    elif letter < 0x800:
        o[0] = 0xC0 | letter >> 6
        o[1] = 0x80 | letter & 63
        out[0] = o + 2
    elif letter < 0x10000:
        o[0] = 0xE0 | letter >> 12
        o[1] = 0x80 | letter >> 6 & 63
        o[2] = 0x80 | letter & 63
        out[0] = o + 3
    else:
        o[0] = 0xF0 | letter >> 18
        o[1] = 0x80 | letter >> 12 & 63
        o[2] = 0x80 | letter >> 6 & 63
        o[3] = 0x80 | letter & 63
        out[0] = o + 4
    return p


cdef inline bint ordinary(uint64_t eight) noexcept nogil:
    """Whether eight bytes are all ordinary and ASCII; now and then it says no without need."""
    cdef uint64_t ones = 0x0101010101010101
    return not (
        (eight | (eight - 0x20 * ones) | ((eight ^ 0x22 * ones) - ones)
         | ((eight ^ 0x5C * ones) - ones)) & 0x80 * ones
    )


cdef const uint8_t* string(const uint8_t* p, Reader* r, Text* text) noexcept nogil:
    """A JSON string; what it means is never longer than how it is written."""
    # Locals throughout: a byte that is written may be any byte, to the compiler those of r too.
    cdef const uint8_t* end = r.end
    cdef uint8_t* out
    cdef uint8_t high = 0
    cdef uint64_t eight
    p = past(p, end, c'"')
    if p == NULL:
        return NULL
    text.at = p
    while p < end and ORDINARY[p[0]]:
        high |= p[0]
        p += 1
    if p < end and p[0] == c'"':
        text.length = p - text.at
        r.wide |= high >> 7
        return p + 1
    out = r.scratch
    memcpy(out, text.at, p - text.at)
    out += p - text.at
    text.at = r.scratch
    while p < end:
        if end - p >= 8:  # most of a property string is plain: eight bytes at once
            memcpy(&eight, p, 8)
            if ordinary(eight):
                memcpy(out, &eight, 8)
                out += 8
                p += 8
                continue
        if ORDINARY[p[0]]:
            high |= p[0]
            out[0] = p[0]
            out += 1
            p += 1
        elif p[0] == c"\\":
            p = escaped(p + 1, end, &out)
            if p == NULL:
                return NULL
        else:
            break
    if p >= end or p[0] != c'"':
        return NULL
    text.length = out - text.at
    r.scratch = out
    r.wide |= high >> 7
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
    while p < end and (p[0] == c" " or p[0] == c"\n" or p[0] == c"\r" or p[0] == c"\t"):
        p += 1
    text.at = p
    while p < end and (p[0] == c"-" or c"0" <= p[0] <= c"9"):
        p += 1
    text.length = p - text.at
    # JSON has -0, a number in a field has not.
    if not (text.length == 2 and text.at[0] == c"-" and text.at[1] == c"0"):
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


cdef const uint8_t* ext_fields(const uint8_t* p, Reader* r, Head* head) noexcept nogil:
    cdef const uint8_t* end = r.end
    cdef const uint8_t* next
    p = past(p, end, c"{")
    next = past(p, end, c"}")
    if next != NULL:
        return next
    while head.fields < MOST_FIELDS:
        p = string(p, r, &head.names[head.fields])
        p = string(past(p, end, c":"), r, &head.values[head.fields])
        if p == NULL or head.names[head.fields].length == 0:
            return NULL
        head.fields += 1
        next = past(p, end, c",")
        if next == NULL:
            return past(p, end, c"}")
        p = next
    return NULL


cdef bint cut(const uint8_t* p, Reader* r, Head* head) noexcept nogil:
    """The whole header into its members; False if anything about it is odd."""
    cdef const uint8_t* end = r.end
    cdef Text text
    cdef int which, seen = 0
    head.fields = 0
    head.numbers[0] = head.numbers[1] = head.numbers[2] = head.numbers[3] = 0
    p = past(p, end, c"{")
    while True:
        p = past(string(p, r, &text), end, c":")
        if p == NULL or text.length == 0:
            return False
        which = find(&text, MEMBER_NAMES, MEMBERS)
        if which < 0 or seen >> which & 1:
            return False
        seen |= 1 << which
        if which < EXT_FIELDS:
            p = literal(p, end, &head.numbers[which])
        elif which == EXT_FIELDS:
            p = ext_fields(p, r, head)
        else:
            p = string(p, r, &text)
        if p == NULL:
            return False
        if past(p, end, c",") == NULL:
            break
        p = past(p, end, c",")
    p = past(p, end, c"}")
    while p != NULL and p < end:
        if p[0] != c" " and p[0] != c"\n" and p[0] != c"\r" and p[0] != c"\t":
            return False
        p += 1
    return p != NULL


cdef bint sort(Head* head, const char** names, int count, bint short, Text* found) noexcept nogil:
    """Each field to its place among `names`; False for an unknown or repeated one."""
    cdef int i, place, ignored = 0
    cdef Text* name
    for i in range(count):
        found[i].at = NULL
    for i in range(head.fields):
        name = &head.names[i]
        if short:
            place = name.at[0] - c"a" if name.length == 1 else -1
        else:
            place = find(name, names, count)
        if 0 <= place < count:
            if found[place].at != NULL:
                return False
            found[place] = head.values[i]
        else:
            place = find(name, IGNORED, IGNORED_FIELDS)
            if place < 0 or ignored >> place & 1:
                return False
            ignored |= 1 << place
    return True


cdef inline bint whole(Text* text, int32_t* result, int32_t absent) noexcept nogil:
    cdef int64_t value = absent
    if text.at != NULL and not number(text, INT32_MIN, INT32_MAX, &value):
        return False
    result[0] = <int32_t>value
    return True


cdef inline str decoded(Text* text, str before):
    """The text; the object of the message before where it is the same, as names mostly are."""
    cdef Py_ssize_t length
    cdef const char* same
    if before is not None:
        same = PyUnicode_AsUTF8AndSize(before, &length)
        if length == text.length and memcmp(same, text.at, length) == 0:
            return before
    return PyUnicode_DecodeUTF8(<char*>text.at, text.length, NULL)


cdef Send send_of(Head* head, const uint8_t* body, Py_ssize_t length, Send before):
    cdef Text f[SEND_FIELDS]
    cdef Send send
    cdef int i
    if not sort(head, SEND_NAMES, SEND_FIELDS, head.numbers[CODE] != 10, f):
        return None
    for i in range(8):
        if f[i].at == NULL or f[i].length == 0:
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
    send.codec = 0
    if before is None:
        before = send
    send.group = decoded(&f[0], before.group)
    send.topic = decoded(&f[1], before.topic)
    send.default_topic = decoded(&f[2], before.default_topic)
    send.unit_mode = f[10].at != NULL and is_true(f[10].at, f[10].length)
    send.batch = f[12].at != NULL and is_true(f[12].at, f[12].length)
    send.body = PyBytes_FromStringAndSize(<char*>body, length)
    send.position, send.size, send.queue_offset, send.prepared_offset = -1, 0, 0, 0
    send.read(PyBytes_FromStringAndSize(<char*>f[8].at, f[8].length) if f[8].at != NULL else b"")
    return send


cdef Pull pull_of(Head* head):
    cdef Text f[PULL_FIELDS]
    cdef int64_t value = 0
    cdef int i
    cdef char kind
    cdef list values = []
    if not sort(head, PULL_NAMES, PULL_FIELDS, False, f):
        return None
    for i in range(PULL_FIELDS):
        kind = PULL_KINDS[i]
        if f[i].at == NULL:
            if kind < c"a":
                return None
            values.append(None)
        elif kind == c"N" or kind == c"t":
            if kind == c"N" and f[i].length == 0:
                return None
            values.append(PyUnicode_DecodeUTF8(<char*>f[i].at, f[i].length, NULL))
        elif kind == c"L":
            if not number(&f[i], INT64_MIN, INT64_MAX, &value):
                return None
            values.append(value)
        else:
            if not number(&f[i], INT32_MIN, INT32_MAX, &value):
                return None
            values.append(value)
    return Pull(
        head.numbers[CODE], 0, head.numbers[OPAQUE], head.numbers[FLAG], head.numbers[VERSION],
        tuple(values),
    )


cdef bint is_utf8(const uint8_t* header, Py_ssize_t length) except -1:
    try:
        PyUnicode_DecodeUTF8(<char*>header, length, NULL)
    except UnicodeDecodeError:
        return False
    return True


cdef object typed(
    const uint8_t* header, Py_ssize_t length, const uint8_t* body, Py_ssize_t body_length,
    Send before,
):
    """The send or pull of a JSON header, None if it is something else or odd."""
    cdef uint8_t stack[STACK]
    cdef uint8_t* scratch = stack
    cdef Reader reader
    cdef Head head
    cdef int32_t code
    if length > STACK:
        scratch = <uint8_t*>PyMem_Malloc(length)
        if scratch == NULL:
            raise MemoryError
    reader.end, reader.scratch, reader.wide = header + length, scratch, False
    try:
        if not cut(header, &reader, &head) or head.numbers[FLAG] & 1:
            return None  # a response has a result in its code, 10 and 11 are among them
        code = head.numbers[CODE]
        if code != 10 and code != 310 and code != 320 and code != 11 and code != 361:
            return None
        if reader.wide and not is_utf8(header, length):
            return None
        if code == 11 or code == 361:
            return pull_of(&head)
        return send_of(&head, body, body_length, before)
    finally:
        if scratch != stack:
            PyMem_Free(scratch)


def requests(data, int64_t limit):
    """Like `frames.split`, with sends and pulls decoded."""
    cdef list found = []
    cdef Send last = None
    cdef Py_ssize_t at = 0
    cdef Py_buffer view
    cdef Edge frame
    cdef const uint8_t* p
    cdef const uint8_t* body
    cdef object request
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        p = <const uint8_t*>view.buf
        while edge(p, view.len - at, limit, &frame):
            request = None
            if frame.codec == 0:
                body = p + 8 + frame.header
                request = typed(p + 8, frame.header, body, frame.length - 4 - frame.header, last)
            if request is None:
                request = frame_at(p, &frame)
            elif type(request) is Send:
                last = <Send>request
            found.append(request)
            at += 4 + frame.length
            p += 4 + frame.length
    except Malformed as fault:
        fault.before = found
        raise
    finally:
        PyBuffer_Release(&view)
    return found, at


cdef object typed_frame(Frame frame):
    cdef bytes header = frame.header, body = frame.body
    if frame.codec != 0 or header is None or body is None:
        return None
    return typed(
        <uint8_t*>PyBytes_AS_STRING(header), PyBytes_GET_SIZE(header),
        <uint8_t*>PyBytes_AS_STRING(body), PyBytes_GET_SIZE(body), None,
    )


def read_send(Frame frame not None):
    """The send that a frame is, in the usual form; else None."""
    request = typed_frame(frame)
    return request if type(request) is Send else None


def read_pull(Frame frame not None):
    """The pull that a frame is, in the usual form; else None."""
    request = typed_frame(frame)
    return request if type(request) is Pull else None
