"""Where Spark looks for the source `rocketmq` by itself: it asks every module named pyspark_*."""

try:
    from cometmq.spark.source import DefaultSource as DefaultSource
except ImportError:
    # One such module that does not import hides the sources of all others; `register` says why.
    pass
