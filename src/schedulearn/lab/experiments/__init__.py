"""The published experiments as data, a runner, and reports."""
