"""Archives and folders that others made, read without trust: nothing is followed, and everything has a bound.

The standard library alone, and few imports: a part of it runs in a child that must start at once.
"""
