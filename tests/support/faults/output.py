"""What a simulated worker prints: a real file, which the service reads while it is there."""

from pathlib import Path

from schedulearn.executors.common import logs
from schedulearn.executors.common.logwriter import LogWriter

_CAP = 1 << 20  # bytes; far more than is printed in one run


class Output:
    """Lines with a metric. They come in pieces that end within a line, as those of a buffer do."""

    def __init__(self, folder: Path, attempt: int) -> None:
        """The metric's value tells of which attempt it is."""
        folder.mkdir(parents=True)
        self._folder, self._attempt = folder, attempt
        self._writer = LogWriter(str(folder), _CAP)
        self._written = b""
        self.points: list[tuple[int, float]] = []  # step and value of each line
        self._begin_line()

    def print(self) -> None:
        """The end of a line, and the beginning of the next."""
        self._write(f"step={len(self.points)}\n")
        self._begin_line()

    def end(self) -> None:
        """A last line, without a line end."""
        self._write(f"step={len(self.points)}")
        self._writer.close()

    def is_whole(self) -> bool:
        return logs.read(self._folder, None, _CAP).data == self._written

    def _begin_line(self) -> None:
        step = len(self.points) + 1
        value = f"{self._attempt}.{step:04d}"
        self.points.append((step, float(value)))
        self._write(f"loss={value} ")

    def _write(self, text: str) -> None:
        self._written += text.encode()
        self._writer.write(text.encode())
