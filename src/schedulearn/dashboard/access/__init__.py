"""Logging in: sessions, what browsers keep, and what stands before every page."""
