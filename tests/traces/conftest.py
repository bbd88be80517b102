"""Files made up for a test, in a folder of its own."""

from collections.abc import Callable
from pathlib import Path

import pytest

Write = Callable[..., str]

PLACEMENTS = """placement,local_bsz,step_time,sync_time
1,4,1.0,0.0
1,8,2.0,0.0
2,4,1.5,0.5
2,8,2.5,0.5
11,8,9.0,5.0
4,4,1.5,0.5
4,8,2.5,0.5
42,4,2.0,1.0
42,8,3.0,1.0
"""
SCALABILITY = """num_nodes,num_replicas,local_bsz,step_time,sync_time
8,8,4,9.0,5.0
2,8,4,2.5,1.5
2,8,8,3.5,1.5
"""
VALIDATION_16 = "progress,iteration,metric,grad_sqr,grad_var\n10,100,0.5,1,1\n20,400,0.8,1,1\n"
VALIDATION_32 = "progress,iteration,metric,grad_sqr,grad_var\n10,60,0.4,1,1\n20,200,0.7,1,1\n"


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Write a file and give its path as the command line would."""

    def write(content: str | bytes, name: str = "trace.csv") -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)

    return write


@pytest.fixture
def profile(write: Write) -> Callable[[str], None]:
    """A small measured model beside the trace."""

    def profile(model: str = "tiny") -> None:
        write(PLACEMENTS, f"profiles/{model}/placements.csv")
        write(SCALABILITY, f"profiles/{model}/scalability.csv")
        write(VALIDATION_16, f"profiles/{model}/validation-16.csv")
        write(VALIDATION_32, f"profiles/{model}/validation-32.csv")

    return profile
