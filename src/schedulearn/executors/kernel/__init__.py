"""What the kernel tells of workers and how it holds them: control groups, network counters, energy."""
