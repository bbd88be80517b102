"""CPU limits on shared machines: one loop for each machine."""
