"""Who should be where, of many jobs at once: three ways to an answer."""
