"""Records of the commit log (spec 03 ch. 3), what stands in their properties, and batch bodies."""

cimport cython
from cpython.buffer cimport (
    PyBUF_SIMPLE, PyBuffer_FillInfo, PyBuffer_Release, PyObject_GetBuffer,
)
from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_FromStringAndSize, PyBytes_GET_SIZE
from cpython.mem cimport PyMem_Free, PyMem_Malloc
from cpython.memoryview cimport PyMemoryView_FromObject
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_DecodeUTF8
from libc.stdint cimport INT32_MAX, int16_t, int32_t, int64_t, int8_t, uint8_t, uint32_t
from libc.string cimport memcmp, memcpy

from cometmq.kernel.fast.entries cimport Tail
from cometmq.kernel.fast.headers cimport Send
from cometmq.kernel.fast.octets cimport (
    BUILT_FOR, load16, load32, load64, store16, store32, store64,
)
from cometmq.kernel.fast.properties cimport Found, java_hash_of, scan_properties

from cometmq.kernel.faults import Malformed

cdef extern from "zlib.h" nogil:
    unsigned long crc32(unsigned long crc, const uint8_t* data, unsigned int length)

cdef enum:
    FORMAT_1 = 0xDAA320A7
    FORMAT_2 = 0xDAA320AB
    BLANK_FORMAT = 0xCBD43194
    SHORTEST = 91
    SMALLEST_CHUNK = 65536
    LARGEST_SPARE = 4194304

ABI = BUILT_FOR
V1, V2, BLANK_MAGIC = 0xDAA320A7, 0xDAA320AB, 0xCBD43194
DELAY, TIMER, TRAN, INNER, NO_WAIT, UNIQUE, OWN, ODD, KEYS = (1 << bit for bit in range(9))
MORE, BLANK, ZERO, BAD = range(4)


cdef inline int32_t crc_of(const uint8_t* body, Py_ssize_t length) noexcept nogil:
    # zlib takes its first steps again for a null pointer, so an empty body must not come as one.
    return <int32_t>(crc32(0, body, <unsigned int>length) & 0x7FFFFFFF) if length else 0


def java_hash(bytes text not None):
    """Java's hash of a UTF-8 text: over its UTF-16 units, wrapped to a signed 32 bit number."""
    cdef int32_t value
    java_hash_of(<uint8_t*>PyBytes_AS_STRING(text), PyBytes_GET_SIZE(text), &value)
    return value


def scan(bytes properties not None):
    """(marks, tag hash, unique key) of a property string; of a repeated name the last counts."""
    cdef Found found
    scan_properties(<uint8_t*>PyBytes_AS_STRING(properties), PyBytes_GET_SIZE(properties), &found)
    return (
        found.marks,
        found.tag_hash,
        properties[found.unique_at:found.unique_at + found.unique_length],
    )


@cython.final
cdef class Record:
    """One record as it stands in the log; `position` is its recorded PHYSICALOFFSET."""

    cdef readonly int64_t position, queue_offset, born_ms, store_ms, prepared_offset
    cdef readonly int32_t size, body_crc, queue_id, flag, sys_flag, reconsume_times
    cdef readonly uint32_t magic
    cdef readonly bytes born_host, store_host, body, properties
    cdef readonly str topic

    def __init__(
        self, int64_t position, int32_t size, uint32_t magic, int32_t body_crc, int32_t queue_id,
        int32_t flag, int64_t queue_offset, int32_t sys_flag, int64_t born_ms,
        bytes born_host not None, int64_t store_ms, bytes store_host not None,
        int32_t reconsume_times, int64_t prepared_offset, bytes body not None,
        str topic not None, bytes properties not None,
    ):
        self.position, self.size, self.magic, self.body_crc = position, size, magic, body_crc
        self.queue_id, self.flag, self.queue_offset = queue_id, flag, queue_offset
        self.sys_flag, self.born_ms, self.born_host = sys_flag, born_ms, born_host
        self.store_ms, self.store_host = store_ms, store_host
        self.reconsume_times, self.prepared_offset = reconsume_times, prepared_offset
        self.body, self.topic, self.properties = body, topic, properties


cpdef int64_t size_of(
    int64_t topic_length, int64_t body_length, int64_t properties_length, int64_t born_length,
    int64_t store_length,
) noexcept:
    """How long a record is; hosts are 8 or 20 bytes with their port."""
    return (
        75 + (topic_length > 127) + born_length + store_length + body_length + topic_length
        + properties_length
    )


cdef int check(
    Py_ssize_t topic, Py_ssize_t properties, Py_ssize_t born_host, Py_ssize_t store_host
) except -1:
    if not 0 < topic <= 255:
        raise Malformed(f"a topic of 1 to 255 bytes expected, not {topic}")
    if properties > 32767:
        raise Malformed(f"properties of at most 32767 bytes expected, not {properties}")
    if (born_host != 8 and born_host != 20) or (store_host != 8 and store_host != 20):
        raise Malformed("hosts of 8 or 20 bytes with their port expected")
    return 0


cdef inline uint8_t* copy(uint8_t* p, bytes source) noexcept:
    memcpy(p, PyBytes_AS_STRING(source), PyBytes_GET_SIZE(source))
    return p + PyBytes_GET_SIZE(source)


cdef uint8_t* write(
    uint8_t* p, int64_t size, uint32_t magic, int32_t crc, int32_t queue_id, int32_t flag,
    int64_t queue_offset, int64_t position, int32_t sys_flag, int64_t born_ms, bytes born_host,
    int64_t store_ms, bytes store_host, int32_t reconsume_times, int64_t prepared_offset,
    bytes body, bytes topic, Py_ssize_t properties,
) noexcept:
    """A record up to its properties, which start where this returns."""
    store32(p, <uint32_t>size)
    store32(p + 4, magic)
    store32(p + 8, crc)
    store32(p + 12, queue_id)
    store32(p + 16, flag)
    store64(p + 20, queue_offset)
    store64(p + 28, position)
    store32(p + 36, sys_flag)
    store64(p + 40, born_ms)
    p = copy(p + 48, born_host)
    store64(p, store_ms)
    p = copy(p + 8, store_host)
    store32(p, reconsume_times)
    store64(p + 4, prepared_offset)
    store32(p + 12, <uint32_t>PyBytes_GET_SIZE(body))
    p = copy(p + 16, body)
    if magic == FORMAT_2:
        p[0] = 0  # a topic has 255 bytes at most
        p += 1
    p[0] = <uint8_t>PyBytes_GET_SIZE(topic)
    p = copy(p + 1, topic)
    store16(p, <uint32_t>properties)
    return p + 2


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
    """The records of one turn of the loop that go into one file.

    `data` belongs at `position`; `end` is where the next record will lie, `room` what the file
    has left from there.
    """

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
        """Appends the record of `send` and an entry; False, and nothing done, if it has no room."""
        cdef bytes body = send.body, properties = send.text
        if body is None or properties is None:
            raise TypeError("a send with body and properties expected")
        cdef Py_ssize_t topic_length = PyBytes_GET_SIZE(topic), body_length = PyBytes_GET_SIZE(body)
        cdef Py_ssize_t length = PyBytes_GET_SIZE(properties)
        cdef bint open_end = length > 0 and PyBytes_AS_STRING(properties)[length - 1] != 2
        cdef Py_ssize_t total = length + open_end + PyBytes_GET_SIZE(suffix)
        cdef Py_ssize_t born_length = PyBytes_GET_SIZE(born_host)
        cdef Py_ssize_t store_length = PyBytes_GET_SIZE(store_host)
        check(topic_length, total, born_length, store_length)
        cdef int64_t size = size_of(topic_length, body_length, total, born_length, store_length)
        if size + 8 > self.room:
            return False
        if size > INT32_MAX:
            raise Malformed(f"a record of at most {INT32_MAX} bytes expected, not {size}")
        cdef uint32_t magic = FORMAT_2 if topic_length > 127 else FORMAT_1
        cdef int32_t sys_flag = (
            send.sys_flag & ~0x30 | (born_length == 20) << 4 | (store_length == 20) << 5
        )
        # Prepared and rolled back messages stand in no queue (spec 03 §3.1, QUEUEOFFSET).
        cdef bint queued = not sys_flag & 4
        cdef int64_t queue_offset = tail.next_offset() if queued else 0
        cdef uint8_t* p = self.grow(<Py_ssize_t>size)
        if queued:
            tail.put(self.end, <int32_t>size, send.tag_hash)
        self.chunk.used += <Py_ssize_t>size
        p = write(
            p, size, magic, crc_of(<uint8_t*>PyBytes_AS_STRING(body), body_length), send.queue_id,
            send.message_flag, queue_offset, self.end, sys_flag, send.born_ms, born_host, store_ms,
            store_host, send.reconsume_times, send.prepared_offset, body, topic, total,
        )
        p = copy(p, properties)
        if open_end:
            p[0] = 2
            p += 1
        copy(p, suffix)
        send.position, send.size, send.queue_offset = self.end, <int32_t>size, queue_offset
        self.end += size
        self.room -= size
        return True

    def blank(self):
        """Closes the file with the blank record; `end` is then the start of the next file."""
        if not 8 <= self.room <= INT32_MAX:
            raise ValueError(f"a blank record needs 8 bytes, {self.room} are left")
        cdef uint8_t* p = self.grow(8)
        store32(p, <uint32_t>self.room)
        store32(p + 4, BLANK_FORMAT)
        self.chunk.used += 8
        self.end += self.room
        self.room = 0


def encode(Record record not None):
    """The bytes of a record, with the format, position and CRC that it names."""
    cdef bytes topic = record.topic.encode()
    cdef Py_ssize_t topic_length = len(topic), body_length = len(record.body)
    cdef Py_ssize_t length = len(record.properties)
    cdef Py_ssize_t born_length = len(record.born_host), store_length = len(record.store_host)
    cdef uint32_t magic = record.magic
    check(topic_length, length, born_length, store_length)
    if magic != FORMAT_2 and (magic != FORMAT_1 or topic_length > 127):
        raise Malformed(f"magic {magic:X} does not go with a topic of {topic_length} bytes")
    if record.sys_flag & 0x30 != (born_length == 20) << 4 | (store_length == 20) << 5:
        raise Malformed(f"sysFlag {record.sys_flag} does not go with the lengths of the hosts")
    cdef int64_t size = (
        75 + (magic == FORMAT_2) + born_length + store_length + body_length + topic_length + length
    )
    if size > INT32_MAX:
        raise Malformed(f"a record of at most {INT32_MAX} bytes expected, not {size}")
    cdef bytes data = PyBytes_FromStringAndSize(NULL, <Py_ssize_t>size)
    copy(
        write(
            <uint8_t*>PyBytes_AS_STRING(data), size, magic, record.body_crc, record.queue_id,
            record.flag, record.queue_offset, record.position, record.sys_flag, record.born_ms,
            record.born_host, record.store_ms, record.store_host, record.reconsume_times,
            record.prepared_offset, record.body, topic, length,
        ),
        record.properties,
    )
    return data


cdef struct Layout:
    # Where the parts start, after all of them were found to be inside.
    Py_ssize_t size, born_host, store_ms, middle, body, body_length, topic, topic_length
    Py_ssize_t properties


cdef int lay_out(const uint8_t* p, Py_ssize_t left, bint check_crc, Layout* found) except -1:
    cdef int32_t size, length, sys_flag
    cdef uint32_t magic
    cdef Py_ssize_t wide
    if left < SHORTEST:
        raise Malformed(f"a record of at least {SHORTEST} bytes expected, {left} are left")
    size = <int32_t>load32(p)
    magic = load32(p + 4)
    sys_flag = <int32_t>load32(p + 36)
    if magic != FORMAT_1 and magic != FORMAT_2:
        raise Malformed(f"the magic of a record expected, not {magic:08X}")
    if not SHORTEST <= size <= left:
        raise Malformed(f"a record of {SHORTEST} to {left} bytes expected, not {size}")
    wide = 2 if magic == FORMAT_2 else 1
    found.size = size
    found.store_ms = 48 + (20 if sys_flag & 16 else 8)
    found.middle = found.store_ms + 8 + (20 if sys_flag & 32 else 8)
    found.body = found.middle + 16
    if found.body + wide + 2 > size:
        raise Malformed(f"a record of {size} bytes has no room for its hosts")
    length = <int32_t>load32(p + found.middle + 12)
    if length < 0 or length > size - found.body - wide - 2:
        raise Malformed(
            f"a body of 0 to {size - found.body - wide - 2} bytes expected, not {length}"
        )
    found.body_length = length
    found.topic = found.body + length + wide
    length = <int16_t>load16(p + found.topic - 2) if wide == 2 else <int8_t>p[found.topic - 1]
    if length < 0 or length > size - found.topic - 2:
        raise Malformed(f"a topic of 0 to {size - found.topic - 2} bytes expected, not {length}")
    found.topic_length = length
    found.properties = found.topic + length + 2
    length = <int16_t>load16(p + found.properties - 2)
    if length != size - found.properties:
        raise Malformed(f"{size - found.properties} bytes of properties expected, not {length}")
    if check_crc and found.body_length:
        length = crc_of(p + found.body, found.body_length)
        if length != <int32_t>load32(p + 8):
            raise Malformed(f"a body with CRC {<int32_t>load32(p + 8)} expected, not {length}")
    return 0


cdef str topic_at(const uint8_t* p, Py_ssize_t length, str before):
    """The topic; the object of the record before where it is the same."""
    cdef Py_ssize_t known
    cdef const char* same
    if before is not None:
        same = PyUnicode_AsUTF8AndSize(before, &known)
        if known == length and memcmp(same, p, length) == 0:
            return before
    try:
        return PyUnicode_DecodeUTF8(<char*>p, length, NULL)
    except UnicodeDecodeError as error:
        raise Malformed(f"a topic in UTF-8 expected: {error}") from None


cdef Record read(const uint8_t* p, Py_ssize_t left, bint check_crc, str before):
    cdef Layout at
    lay_out(p, left, check_crc, &at)
    cdef Record record = Record.__new__(Record)
    cdef const char* text = <const char*>p
    record.topic = topic_at(p + at.topic, at.topic_length, before)
    record.size = <int32_t>at.size
    record.magic = load32(p + 4)
    record.body_crc = <int32_t>load32(p + 8)
    record.queue_id = <int32_t>load32(p + 12)
    record.flag = <int32_t>load32(p + 16)
    record.queue_offset = <int64_t>load64(p + 20)
    record.position = <int64_t>load64(p + 28)
    record.sys_flag = <int32_t>load32(p + 36)
    record.born_ms = <int64_t>load64(p + 40)
    record.born_host = PyBytes_FromStringAndSize(text + 48, at.store_ms - 48)
    record.store_ms = <int64_t>load64(p + at.store_ms)
    record.store_host = PyBytes_FromStringAndSize(
        text + at.store_ms + 8, at.middle - at.store_ms - 8
    )
    record.reconsume_times = <int32_t>load32(p + at.middle)
    record.prepared_offset = <int64_t>load64(p + at.middle + 4)
    record.body = PyBytes_FromStringAndSize(text + at.body, at.body_length)
    record.properties = PyBytes_FromStringAndSize(text + at.properties, at.size - at.properties)
    return record


def decode(data, Py_ssize_t at=0, bint check_crc=False):
    """The record at `data[at]`, all of whose lengths must agree."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if at < 0 or at > view.len:
            raise Malformed(f"a record in {view.len} bytes expected, not at {at}")
        return read(<const uint8_t*>view.buf + at, view.len - at, check_crc, None)
    finally:
        PyBuffer_Release(&view)


def decode_all(data, bint check_crc=False):
    """All records of `data`, which must end with the last one (the body of a pull)."""
    cdef list records = []
    cdef Py_ssize_t at = 0
    cdef Py_buffer view
    cdef Record record
    cdef str topic = None
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        while at < view.len:
            record = read(<const uint8_t*>view.buf + at, view.len - at, check_crc, topic)
            records.append(record)
            topic = record.topic
            at += record.size
    finally:
        PyBuffer_Release(&view)
    return records


def walk(data, Py_ssize_t at, int64_t position, int64_t file_end):
    """The sound records from `data[at]` on, where it stopped, and why (MORE, BLANK, ZERO, BAD)."""
    cdef list walked = []
    cdef Py_buffer view
    cdef const uint8_t* p
    cdef Layout place
    cdef Found found
    cdef int32_t size
    cdef uint32_t magic
    cdef str topic = None
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        if at < 0 or at > view.len:
            raise ValueError(f"a place in {view.len} bytes expected, not {at}")
        while view.len - at >= 8:
            p = <const uint8_t*>view.buf + at
            size = <int32_t>load32(p)
            magic = load32(p + 4)
            if magic == BLANK_FORMAT:
                return walked, at, BLANK
            if magic == 0 and size == 0:
                return walked, at, ZERO
            if magic != FORMAT_1 and magic != FORMAT_2:
                return walked, at, BAD
            if not SHORTEST <= size <= file_end - position:
                return walked, at, BAD
            if size > view.len - at:
                return walked, at, MORE
            try:
                lay_out(p, view.len - at, True, &place)
                topic = topic_at(p + place.topic, place.topic_length, topic)
            except Malformed:
                return walked, at, BAD
            if <int64_t>load64(p + 28) != position:
                return walked, at, BAD
            scan_properties(p + place.properties, size - place.properties, &found)
            walked.append((
                position, size, topic, <int32_t>load32(p + 12), <int64_t>load64(p + 20),
                found.tag_hash, <int64_t>load64(p + place.store_ms), <int32_t>load32(p + 36),
            ))
            at += size
            position += size
    finally:
        PyBuffer_Release(&view)
    return walked, at, MORE


def members(bytes body not None):
    """(flag, body, properties) of each message of a batch (spec 02 ch. 9).

    Size, magic and CRC of a member say nothing that its lengths do not, and are not looked at:
    the original does not either.
    """
    cdef list found = []
    cdef const uint8_t* p = <const uint8_t*>PyBytes_AS_STRING(body)
    cdef Py_ssize_t left = PyBytes_GET_SIZE(body), length, properties
    while left > 0:
        if left < 22:
            raise Malformed(f"a batch member of at least 22 bytes expected, {left} are left")
        length = <int32_t>load32(p + 16)
        if length < 0 or length > left - 22:
            raise Malformed(f"a member's body of 0 to {left - 22} bytes expected, not {length}")
        left -= 22 + length
        properties = <int16_t>load16(p + 20 + length)
        if properties < 0 or properties > left:
            raise Malformed(f"properties of 0 to {left} bytes expected, not {properties}")
        found.append((
            <int32_t>load32(p + 12),
            PyBytes_FromStringAndSize(<char*>p + 20, length),
            PyBytes_FromStringAndSize(<char*>p + 22 + length, properties),
        ))
        left -= properties
        p += 22 + length + properties
    return found
