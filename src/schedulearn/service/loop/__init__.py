"""The scheduler: one thread that owns all changes of state, and what it is told."""
