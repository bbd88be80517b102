"""The loop without I/O: apply an event, decide, reconcile into commands, explain."""
