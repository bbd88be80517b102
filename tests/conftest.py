"""Fixtures for all tests."""

from support.docker import daemons

__all__ = ["daemons"]
