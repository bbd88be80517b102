"""What acts: each executor starts, stops and watches workers in its own way behind `domain.ports.Executor`."""
