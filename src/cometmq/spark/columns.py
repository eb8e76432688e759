"""The 22 columns of the source: their order, names and types (spec 09 ch. 3)."""

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
