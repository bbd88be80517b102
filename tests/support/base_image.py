"""A small image made from this machine's own Python, shell and libraries: no registry and no package is needed.

It is made once and kept outside of the repository; another Python, or a change of this file, makes another one.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterable
from pathlib import Path

IMAGE = "schedulearn-test"
CHANGES = ["ENV PATH=/usr/local/bin:/usr/bin", "ENV LD_LIBRARY_PATH=/usr/local/lib", 'CMD ["/bin/sh"]']
_TOOLS = """
sh cat cp chmod chown date dd echo env false find grep head id kill ln ls mkdir mv ps pwd readlink rm sed seq sha256sum
sleep sort stat sync tail tar tee test touch tr true truncate uname uniq wc
"""
_LEFT_OUT = {"__pycache__", "test", "tests", "idlelib", "tkinter", "turtledemo", "site-packages", "dist-packages"}
_LEFT_OUT |= {"EXTERNALLY-MANAGED"}  # Debian's word to pip that packages are not its business: in the image they are
_LIBRARY = re.compile(r"(/\S+) \(0x")
_USERS = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/sh\n"
_GROUPS = "root:x:0:\nnogroup:x:65534:\n"


def base_image() -> Path:
    """The image as a tar archive."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "schedulearn-tests"
    key = hashlib.sha256(f"{sys.version} {sys.base_prefix}".encode() + Path(__file__).read_bytes()).hexdigest()[:12]
    archive = cache / f"base-{key}.tar"
    if not archive.exists():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="schedulearn-base-") as folder:
            root = Path(folder)
            _fill(root)
            fresh = cache / f".{archive.name}.{os.getpid()}"
            with tarfile.open(fresh, "w") as tar:
                tar.add(root, ".", filter=as_root)
            fresh.replace(archive)
    return archive


def _fill(root: Path) -> None:
    for folder in ("usr/bin", "usr/lib", "usr/lib64", "usr/local/bin", "usr/local/lib", "etc", "tmp", "root", "proc"):
        (root / folder).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    for name in ("bin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    (root / "etc/passwd").write_text(_USERS)
    (root / "etc/group").write_text(_GROUPS)
    tools = {name: Path(path).resolve() for name in _TOOLS.split() if (path := shutil.which(name))}
    for name, path in tools.items():
        shutil.copy(path, root / "usr/bin" / name)
    modules = _python(root)
    _libraries(root, [*tools.values(), Path(sys.executable).resolve(), *modules])


def _python(root: Path) -> list[Path]:
    """The interpreter with its standard library and pip; returns what is linked with libraries."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    inside = root / "usr/local/lib" / version
    shutil.copy(Path(sys.executable).resolve(), root / "usr/local/bin" / version)
    for name in ("python3", "python"):
        (root / "usr/local/bin" / name).symlink_to(version)
    library = Path(os.__file__).parent
    shutil.copytree(library, inside, ignore=_left_out, symlinks=True)
    (inside / "site-packages").mkdir()
    if pip := _pip(library):
        shutil.copytree(pip, inside / pip.parent.name / "pip", ignore=shutil.ignore_patterns("__pycache__"))
    return list(inside.rglob("*.so"))


def _pip(library: Path) -> Path | None:
    """Beside the standard library; Debian's is below `dist-packages`, for all its versions of Python 3."""
    places = [library / "site-packages", library / "dist-packages", library.parent / "python3/dist-packages"]
    return next((place / "pip" for place in places if (place / "pip").is_dir()), None)


def _left_out(_: str, names: list[str]) -> set[str]:
    return {name for name in names if name in _LEFT_OUT or name.startswith("config-")}


def _libraries(root: Path, programs: Iterable[Path]) -> None:
    for target, path in linked(programs).items():
        (root / target).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path.resolve(), root / target)


def linked(programs: Iterable[Path]) -> dict[Path, Path]:
    """The libraries that programs are linked with: where each belongs in the image, and where it is here."""
    told = subprocess.run(["ldd", *map(str, programs)], capture_output=True, text=True, check=False).stdout
    return {_place(path): path for path in map(Path, sorted(set(_LIBRARY.findall(told))))}


def _place(path: Path) -> Path:
    if path.parts[1] not in ("lib", "lib64", "usr") or path.is_relative_to("/usr/local"):
        return Path("usr/local/lib", path.name)
    return Path("usr", *path.parts[1:]) if path.parts[1] != "usr" else Path(*path.parts[1:])


def as_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member
