"""What pages are made of: the frame, live parts, questions, and watching a job."""
