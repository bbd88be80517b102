"""Wires a clock, a store, executors and the control loop together; recovery."""
