"""What every room of the service needs: configuration, the clock, roles, and callers."""
