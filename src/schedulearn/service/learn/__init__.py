"""What is learned from jobs: durations, speed-ups, restart costs, usage."""
