"""Workers as containers of Docker Engines, here or on other machines."""

from schedulearn.executors.docker.executor import DockerExecutor

__all__ = ["DockerExecutor"]
