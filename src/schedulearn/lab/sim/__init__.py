"""Virtual time: the same decide and reconcile as the live service, driven by an event heap and job models."""
