"""What there is: resources, jobs, nodes, allocations, events, commands, errors. Standard library only."""
