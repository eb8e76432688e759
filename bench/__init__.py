"""The benchmark: ratios beside a C server and the original, measured in one run on one machine."""
