"""Numbers of the remoting protocol: response codes, languages, our protocol version."""

from enum import IntEnum

from cometmq.kernel.faults import CometError

# Every behaviour that depends on a peer's version compares with this scale (spec 01 5.2).
VERSION = 479  # what a 5.3.3 announces
VERSION_3_0_11 = 37  # since then a registration carries more than its topics
VERSION_4_9_4 = 401  # since then a peer reads a strict route

LANGUAGES = (
    "JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP",
    "OMS", "RUST", "NODE_JS",
)  # fmt: skip
OURS, OTHER = "PYTHON", "OTHER"
# A server of the original always says so, and foreign clients have seen nothing else.
SERVER = "JAVA"


class ResponseCode(IntEnum):
    """How a request ended; the remark is for people, programs look at this alone."""

    SUCCESS = 0
    SYSTEM_ERROR = 1
    SYSTEM_BUSY = 2
    REQUEST_CODE_NOT_SUPPORTED = 3
    FLUSH_DISK_TIMEOUT = 10
    SLAVE_NOT_AVAILABLE = 11
    FLUSH_SLAVE_TIMEOUT = 12
    MESSAGE_ILLEGAL = 13
    SERVICE_NOT_AVAILABLE = 14
    NO_PERMISSION = 16
    TOPIC_NOT_EXIST = 17
    PULL_NOT_FOUND = 19
    PULL_RETRY_IMMEDIATELY = 20
    PULL_OFFSET_MOVED = 21
    QUERY_NOT_FOUND = 22
    SUBSCRIPTION_PARSE_FAILED = 23
    SUBSCRIPTION_NOT_EXIST = 24
    SUBSCRIPTION_NOT_LATEST = 25
    SUBSCRIPTION_GROUP_NOT_EXIST = 26
    INVALID_PARAMETER = 29


class BadRequest(CometError, ValueError):
    """A request that is well framed and means nothing: answered, and the connection stays."""

    code = ResponseCode.SYSTEM_ERROR


# Codes above 32767 do not fit the binary header; a peer that uses it sends their low 16 bits
# (spec 01 ch. 4). No other request has one of these numbers.
WIDE_CODES = {code & 0xFFFF: code for code in (*range(200050, 200057), 200151)}
