"""Comparisons of policies that run beside the service."""
