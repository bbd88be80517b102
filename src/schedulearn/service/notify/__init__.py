"""Notices of the ends of jobs: which users are told, in which words, and how they get there."""
