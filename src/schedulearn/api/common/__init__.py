"""What routes share: callers, how answers are made, streams that many follow."""
