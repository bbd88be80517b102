"""What every Python program of a job runs at its start, although it knows nothing of it.

The executor puts the files of this folder in front of the program's path, where Python looks for `sitecustomize`, and a
copy of `schedulearn.job` beside them (`executors/common/sitehook.py`). They run in any image and virtual environment:
the standard library of Python 3.8 is all they need. Nothing here may break a program or noticeably delay its start.
"""
