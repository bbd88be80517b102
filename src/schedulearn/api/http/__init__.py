"""Connections and requests before any route sees them: which may connect, how much they may send, errors as answers."""
