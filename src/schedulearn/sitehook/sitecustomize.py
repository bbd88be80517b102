"""Python runs this at its start, because the executor put this folder in front of the program's path.

An image may have a Python of any age: what does not hold for all of them is in `schedulearn_hook`.
"""

import os
import sys

_folder = os.path.dirname(os.path.abspath(__file__))
if sys.version_info >= (3, 8):
    try:
        __import__("schedulearn_hook").install(_folder)
    except Exception:  # whatever it is: the program must start
        pass

# The user may have a module of this name, too. It is run as if ours were not there, and takes our place.
_ours = sys.modules.pop("sitecustomize")
sys.path[:] = [entry for entry in sys.path if entry != _folder]
try:
    __import__("sitecustomize")
except ImportError as error:
    if getattr(error, "name", "sitecustomize") != "sitecustomize":
        raise
finally:
    sys.modules.setdefault("sitecustomize", _ours)
    sys.path.insert(0, _folder)
