"""A fault simulator: the real scheduler, store and gateway in virtual time, with faults from a seeded schedule."""
