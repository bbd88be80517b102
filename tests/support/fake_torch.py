"""Images for tests have no numeric library. This one has a number of threads, which is all that counts for limits."""

FAKE_TORCH = """
number = 2
def get_num_threads(): return number
def set_num_threads(n): global number; number = n
"""
