"""What will happen: how a job scales, when its loss flattens, how long it still takes. Each estimate has a range."""
