"""What will happen: how long a job still takes. Each estimate carries a range."""
