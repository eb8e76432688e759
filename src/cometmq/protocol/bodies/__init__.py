"""Typed bodies: what a request or an answer carries behind its header, as JSON."""
