"""What executors share: where a worker's files lie, its log, its folders, its environment."""
