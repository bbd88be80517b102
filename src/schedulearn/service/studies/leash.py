"""`python -m schedulearn.service.studies.leash MODULE …`: run a module no longer than its parent lives.

The parent holds the other end of standard input, and the system closes it however it ends.
"""

import os
import runpy
import sys
import threading


def _watch() -> None:
    while os.read(0, 1):
        pass
    os._exit(1)  # nothing is left that would read what comes of it


if __name__ == "__main__":
    threading.Thread(target=_watch, name="leash", daemon=True).start()
    sys.argv = sys.argv[1:]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
