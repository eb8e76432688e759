"""Big-endian loads and stores, copies, texts. Whoever calls them has checked the bounds."""

from cpython.bytes cimport PyBytes_AS_STRING, PyBytes_GET_SIZE
from cpython.unicode cimport PyUnicode_AsUTF8AndSize, PyUnicode_DecodeUTF8
from libc.stdint cimport int16_t, int32_t, int64_t, uint8_t, uint16_t, uint32_t, uint64_t
from libc.string cimport memcmp, memcpy


cdef inline uint16_t load16(const uint8_t* p) noexcept nogil:
    return <uint16_t>((p[0] << 8) | p[1])


cdef inline uint32_t load32(const uint8_t* p) noexcept nogil:
    return (<uint32_t>p[0] << 24) | (<uint32_t>p[1] << 16) | (<uint32_t>p[2] << 8) | p[3]


cdef inline uint64_t load64(const uint8_t* p) noexcept nogil:
    return (<uint64_t>load32(p) << 32) | load32(p + 4)


cdef inline void store16(uint8_t* p, uint32_t value) noexcept nogil:
    p[0] = <uint8_t>(value >> 8)
    p[1] = <uint8_t>value


cdef inline void store32(uint8_t* p, uint32_t value) noexcept nogil:
    store16(p, value >> 16)
    store16(p + 2, value)


cdef inline void store64(uint8_t* p, uint64_t value) noexcept nogil:
    store32(p, <uint32_t>(value >> 32))
    store32(p + 4, <uint32_t>value)


cdef inline uint8_t* put(uint8_t* p, const void* data, Py_ssize_t length) noexcept nogil:
    memcpy(p, data, length)
    return p + length


cdef inline uint8_t* copy(uint8_t* p, bytes source) noexcept:
    return put(p, PyBytes_AS_STRING(source), PyBytes_GET_SIZE(source))


cdef inline str text_at(const uint8_t* p, Py_ssize_t length, str before):
    """The text at p, None if it is no UTF-8; the same object as before, if it says the same."""
    cdef Py_ssize_t known
    cdef const char* same
    if before is not None:
        same = PyUnicode_AsUTF8AndSize(before, &known)
        if known == length and memcmp(same, p, length) == 0:
            return before
    try:
        return PyUnicode_DecodeUTF8(<char*>p, length, NULL)
    except UnicodeDecodeError:
        return None
