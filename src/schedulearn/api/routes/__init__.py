"""One file for each topic. Every route calls one method of the gateway."""
