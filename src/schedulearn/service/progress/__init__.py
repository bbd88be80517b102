"""How trainings get on: reports, output, and event files."""
