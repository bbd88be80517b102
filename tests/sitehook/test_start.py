"""Programs with our folder in front of their path: nothing of theirs is lost or delayed, and some things are there."""

import ast
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from schedulearn.executors.common.sitehook import hook_files, hook_folder, install_hook
from support.waiting import wait_until

ROOT = Path(__file__).resolve().parents[2]
SITE = "import sys\nsys.stdout.write('own site\\n')\n"
# What a library of numbers looks like, as far as the hook is concerned.
TORCH = """
number = 2
def get_num_threads(): return number
def set_num_threads(n): global number; number = n
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    install_hook(tmp_path)
    return hook_folder(tmp_path)


def run(folder: Path, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
    own = more.pop("PYTHONPATH", "")
    env = {"PATH": os.environ["PATH"], "SCHEDULEARN_THREADS": "2", "OMP_NUM_THREADS": "2", **more}
    env["PYTHONPATH"] = f"{folder}:{own}" if own else str(folder)
    words = words if words[0].startswith("/") else (sys.executable, *words)
    return subprocess.run(words, env=env, capture_output=True, text=True, timeout=60, check=False)


def test_old_pythons_can_read_it() -> None:
    for path, data in hook_files().items():
        if not path.startswith("library/"):
            ast.parse(data, path, feature_version=(3, 8))


def test_it_is_put_there_once_and_readable_for_all(folder: Path) -> None:
    before = {path: path.stat().st_ino for path in folder.rglob("*")}
    install_hook(folder.parent.parent)
    assert {path: path.stat().st_ino for path in folder.rglob("*")} == before
    assert {path.stat().st_mode & 0o777 for path in [folder, *folder.rglob("*")]} == {0o755, 0o644}
    assert list(folder.parent.iterdir()) == [folder], "nothing else is left"


def test_a_program_without_numeric_libraries_is_as_it_was(folder: Path) -> None:
    code = (
        "import sys, threading, json, argparse; print(threading.active_count(), 'schedulearn_threads' in sys.modules)"
    )
    done = run(folder, "-c", code)
    assert (done.stdout, done.stderr) == ("1 False\n", "")


def test_the_users_own_sitecustomize_and_path_still_work(folder: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text(SITE + "WHO = 'own'\n")
    (own / "mine.py").write_text("HERE = 'mine'\n")
    code = "import mine, sitecustomize, sys; print(mine.HERE, sitecustomize.WHO, sys.path.count(sys.argv[1]))"
    done = run(folder, "-c", code, str(folder), PYTHONPATH=str(own))
    assert (done.stdout, done.stderr) == ("own site\nmine own 1\n", "")


def test_a_users_sitecustomize_that_fails_fails_as_it_would_without_us(folder: Path, tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import nothing_of_this_name\n")
    done = run(folder, "-c", "from schedulearn import job; print(job.info())", PYTHONPATH=str(own))
    assert done.stdout == "None\n"
    assert "nothing_of_this_name" in done.stderr


@pytest.mark.parametrize("option", ["-S", "-I", "-E"])
def test_isolated_programs(folder: Path, option: str) -> None:
    done = run(folder, option, "-c", "import sys; print('schedulearn_hook' in sys.modules)")
    assert (done.stdout, done.stderr) == ("False\n", "")


def test_programs_in_other_languages(folder: Path) -> None:
    assert run(folder, "/bin/sh", "-c", "echo $OMP_NUM_THREADS").stdout == "2\n"


def test_the_library_is_there_where_nobody_installed_it(folder: Path, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv"], check=True)
    code = "import schedulearn; from schedulearn import job; job.report(step=1, loss=2.0); print(schedulearn.__file__)"
    done = run(folder, str(tmp_path / "venv/bin/python"), "-c", code)
    assert (done.stdout, done.stderr) == (f"{folder}/library/schedulearn/__init__.py\n", "")


def test_a_library_that_is_installed_goes_first(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "own/schedulearn").mkdir(parents=True)
    (tmp_path / "own/schedulearn/__init__.py").write_text("")
    (tmp_path / "own/schedulearn/job.py").write_text("WHO = 'installed'\n")
    done = run(folder, "-c", "from schedulearn import job; print(job.WHO)", PYTHONPATH=str(tmp_path / "own"))
    assert (done.stdout, done.stderr) == ("installed\n", "")


def test_only_the_hook_and_the_library_in_a_job_are_put_there() -> None:
    tops = {path.split("/")[0] for path in hook_files()}
    assert tops == {"sitecustomize.py", "schedulearn_hook.py", "schedulearn_threads", "library"}
    library = {path.split("/")[2] for path in hook_files() if path.startswith("library/")}
    assert library == {"__init__.py", "pinned.py", "job"}


def test_an_installed_package_has_it(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(words, cwd=ROOT, capture_output=True, timeout=120, check=True)
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    for path in hook_files():
        package = path.removeprefix("library/") if path.startswith("library/") else f"schedulearn/sitehook/{path}"
        assert package in names


# --- numeric libraries


def with_torch(tmp_path: Path) -> str:
    (tmp_path / "own").mkdir(exist_ok=True)
    (tmp_path / "own/torch.py").write_text(TORCH)
    return str(tmp_path / "own")


def files(tmp_path: Path, cpus: float) -> dict[str, str]:
    (tmp_path / "ack").write_text("")
    (tmp_path / "control.json").write_text(json.dumps({"cpus": cpus}))
    return {"SCHEDULEARN_CONTROL": str(tmp_path / "control.json"), "SCHEDULEARN_ACK": str(tmp_path / "ack")}


def test_nobody_can_tell_that_an_import_was_watched(folder: Path, tmp_path: Path) -> None:
    code = """if True:
        import importlib.util, sys
        assert importlib.util.find_spec("torch").loader.path.endswith("torch.py")
        assert "schedulearn_threads" not in sys.modules, "only looked for"
        import torch
        print(type(torch.__loader__).__name__, torch.__spec__.loader is torch.__loader__)
        importlib.reload(torch)
    """
    done = run(folder, "-c", code, PYTHONPATH=with_torch(tmp_path))
    assert (done.stdout, done.stderr) == ("SourceFileLoader True\n", "")


def test_a_library_that_cannot_be_imported_fails_as_it_would(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own/torch.py").write_text("raise ImportError('no such device')")
    code = "try: import torch\nexcept ImportError as error: print(error)"
    done = run(folder, "-c", code, PYTHONPATH=str(tmp_path / "own"))
    assert (done.stdout, done.stderr) == ("no such device\n", "")


def test_a_program_that_starts_late_has_the_present_number_from_the_beginning(folder: Path, tmp_path: Path) -> None:
    code = "import os, torch; print(torch.get_num_threads(), os.environ['OMP_NUM_THREADS'])"
    done = run(folder, "-c", code, PYTHONPATH=with_torch(tmp_path), **files(tmp_path, 1.5))
    assert (done.stdout, done.stderr) == ("1 1\n", "")
    assert json.loads((tmp_path / "ack").read_text()) == {"threads": 1, "fixed": False}


def test_a_child_that_trains_follows_too(folder: Path, tmp_path: Path) -> None:
    """Its parent's thread is not in it: the first step starts another."""
    code = """if True:
        import json, os, sys, time, torch
        read, write = os.pipe()
        if os.fork() == 0:
            threads = sys.modules["schedulearn_threads"]
            threads.at_step()
            os.write(write, b"x")
            while torch.get_num_threads() != 1:
                threads.at_step()
                time.sleep(0.01)
            os._exit(5)
        os.read(read, 1)
        with open(os.environ["SCHEDULEARN_CONTROL"], "w") as file:
            file.write(json.dumps({"cpus": 1}))
        print(os.waitstatus_to_exitcode(os.wait()[1]))
    """
    done = run(folder, "-c", code, PYTHONPATH=with_torch(tmp_path), **files(tmp_path, 2.0))
    assert (done.stdout, done.stderr) == ("5\n", "")


def test_the_thread_that_looks_leaves_before_the_interpreter(folder: Path, tmp_path: Path) -> None:
    """Ended within C++ code of a library it would abort the program."""
    own = tmp_path / "own"
    own.mkdir()
    (own / "torch.py").write_text(TORCH)
    code = (
        "import atexit, threading\n"
        "names = lambda: sorted(thread.name for thread in threading.enumerate())\n"
        "atexit.register(lambda: print(names()))\n"  # registered first, so called last
        "import torch; print(names())"
    )
    done = run(folder, "-c", code, PYTHONPATH=str(own))
    assert (done.stdout, done.stderr) == ("['MainThread', 'schedulearn-threads']\n['MainThread']\n", "")


def test_tensorflow_says_that_it_cannot_follow(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "own").mkdir()
    (tmp_path / "own/tensorflow.py").write_text("")
    env = files(tmp_path, 2.0) | {"TF_NUM_INTRAOP_THREADS": "2"}
    assert run(folder, "-c", "import tensorflow", PYTHONPATH=str(tmp_path / "own"), **env).stderr == ""
    assert json.loads((tmp_path / "ack").read_text()) == {"threads": 2, "fixed": True}


def test_openblas_is_found_without_threadpoolctl(folder: Path, tmp_path: Path) -> None:
    code = """if True:
        import sys, numpy
        print(flush=True)
        sys.stdin.readline()
        assert "threadpoolctl" not in sys.modules
        import threadpoolctl
        print([pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"])
    """
    env = {"PATH": os.environ["PATH"], "SCHEDULEARN_THREADS": "2", "OMP_NUM_THREADS": "2", "PYTHONPATH": str(folder)}
    words = [sys.executable, "-c", code]
    env |= files(tmp_path, 2.0)
    with subprocess.Popen(words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdin
        assert program.stdout
        program.stdout.readline()
        (tmp_path / "control.json").write_text('{"cpus": 1}')
        wait_until(lambda: '"threads": 1,' in (tmp_path / "ack").read_text(), 60, "acknowledged")
        program.stdin.write("\n")
        program.stdin.close()
        assert program.stdout.read() == "[1]\n"
