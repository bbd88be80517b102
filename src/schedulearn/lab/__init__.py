"""Trying policies out: virtual time, recorded workloads, published experiments."""
