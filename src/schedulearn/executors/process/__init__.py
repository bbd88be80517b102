"""Workers as plain processes on this machine, each under a small supervisor (the shim) that outlives the service.

What is offered is imported only when it is asked for: the shim lives in this package and must start at once.
"""

TYPE_CHECKING = False  # importing typing would be slow
if TYPE_CHECKING:
    from schedulearn.executors.process.discovery import discover_node
    from schedulearn.executors.process.executor import ProcessExecutor

__all__ = ["ProcessExecutor", "discover_node"]


def __getattr__(name: str) -> object:
    if name == "ProcessExecutor":
        from schedulearn.executors.process.executor import ProcessExecutor

        return ProcessExecutor
    if name == "discover_node":
        from schedulearn.executors.process.discovery import discover_node

        return discover_node
    raise AttributeError(name)
