"""What decides, without I/O: what there is, what is best, what will happen, and the loop."""
