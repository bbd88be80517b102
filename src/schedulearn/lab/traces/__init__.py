"""Readers of public trace formats, and a generator of realistic workloads: all give a `Workload`."""
