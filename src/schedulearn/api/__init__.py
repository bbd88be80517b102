"""The HTTP API under /api/v1: routes, their versioned schemas, and errors as problem details."""
