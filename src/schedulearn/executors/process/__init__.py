"""Workers as plain processes on this machine, each under a small supervisor (the shim) that outlives the service."""
