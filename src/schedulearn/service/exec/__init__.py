"""Commands and files beside running jobs."""
