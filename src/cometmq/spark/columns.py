"""The 22 columns of the source: their order, names and types (spec 09 ch. 3)."""

from collections.abc import Sequence

COLUMNS = {
    "topic": "STRING",
    "brokerName": "STRING",
    "queueId": "INT",
    "queueOffset": "BIGINT",
    "physicalOffset": "BIGINT",
    "msgId": "STRING",
    "offsetMsgId": "STRING",
    "tags": "STRING",
    "keys": "STRING",
    "value": "BINARY",
    "properties": "MAP<STRING,STRING>",
    "flag": "INT",
    "sysFlag": "INT",
    "reconsumeTimes": "INT",
    "bornTimestamp": "TIMESTAMP",
    "storeTimestamp": "TIMESTAMP",
    "deliverTimestamp": "TIMESTAMP",
    "bornHost": "STRING",
    "storeHost": "STRING",
    "bodyCrc": "BIGINT",
    "preparedTransactionOffset": "BIGINT",
    "storeSize": "INT",
}
"""Each column and its type as Spark writes it."""


def ddl(columns: Sequence[str]) -> str:
    """The schema of these columns as Spark reads it: a StructType needs a context, a text none."""
    return ", ".join(f"{name} {COLUMNS[name]}" for name in columns)
