"""Numbers of the remoting protocol: request and response codes, languages, our protocol version."""

from enum import IntEnum

from cometmq.kernel.faults import CometError

# Every behaviour that depends on a peer's version compares with this scale (spec 01 5.2).
VERSION = 479  # what a 5.3.3 announces
VERSION_3_0_11 = 37  # since then a registration carries more than its topics
VERSION_4_9_4 = 401  # since then a peer reads a strict route
VERSION_5_0_0 = 413  # since then a compressed registration has a static-topic section

LANGUAGES = (
    "JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP",
    "OMS", "RUST", "NODE_JS",
)  # fmt: skip
OURS, OTHER = "PYTHON", "OTHER"
# A server of the original always says so, and foreign clients have seen nothing else.
SERVER = "JAVA"


class RequestCode(IntEnum):
    """What a request asks for, under the names that the original's tools print."""

    SEND_MESSAGE = 10
    PULL_MESSAGE = 11
    QUERY_CONSUMER_OFFSET = 14
    UPDATE_CONSUMER_OFFSET = 15
    UPDATE_AND_CREATE_TOPIC = 17
    GET_MAX_OFFSET = 30
    GET_MIN_OFFSET = 31
    VIEW_MESSAGE_BY_ID = 33
    HEART_BEAT = 34
    UNREGISTER_CLIENT = 35
    CONSUMER_SEND_MSG_BACK = 36
    GET_CONSUMER_LIST_BY_GROUP = 38
    NOTIFY_CONSUMER_IDS_CHANGED = 40
    REGISTER_BROKER = 103
    UNREGISTER_BROKER = 104
    GET_ROUTEINFO_BY_TOPIC = 105
    GET_BROKER_CLUSTER_INFO = 106
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP = 200
    SEND_MESSAGE_V2 = 310
    SEND_BATCH_MESSAGE = 320
    GET_TOPIC_CONFIG = 351
    LITE_PULL_MESSAGE = 361


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
