"""What is refused at once because it makes no sense or can never be."""
