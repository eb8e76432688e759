"""Tests of the pipeline on a real Spark."""
