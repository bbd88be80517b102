"""Schedulearn: a light, elastic scheduler for deep-learning training on shared machines."""

__version__ = "0.1.0"
