"""The kernel in Cython, the same file names as in pure/; taken only if all of it was built."""
