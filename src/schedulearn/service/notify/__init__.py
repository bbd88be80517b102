"""Notices of the ends of jobs: who is told, in which words, and how they get there."""
