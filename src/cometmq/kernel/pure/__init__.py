"""The kernel in plain Python: always there, and the specification of the compiled one."""
