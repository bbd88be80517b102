"""Connections and requests before any route sees them: who may connect, how much they may send, errors as answers."""
