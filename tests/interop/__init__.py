"""Tests that ask foreign clients and the original's servers."""
