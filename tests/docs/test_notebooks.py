"""Notebooks of the documentation: their cells run, on files that a comparison has written."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib
import matplotlib.pyplot as plt
import pytest

from schedulearn.lab.sim.export import write_csv
from schedulearn.lab.sim.run import Request
from schedulearn.lab.sim.several import prepare_all, rows
from support.pages import DOCS

NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))


@pytest.fixture
def drawing() -> Iterator[None]:
    before = matplotlib.get_backend()
    matplotlib.use("agg")
    yield
    plt.close("all")
    matplotlib.use(before)


def cells(notebook: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(notebook.read_text("utf-8"))["cells"]
    return found


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.name)
def test_it_is_kept_without_what_a_run_leaves(notebook: Path) -> None:
    code = [cell for cell in cells(notebook) if cell["cell_type"] == "code"]
    assert code
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in code)


@pytest.mark.parametrize("seeds", [1, 3])
def test_a_comparison_is_read(
    seeds: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drawing: None, capsys: pytest.CaptureFixture[str]
) -> None:
    studies = prepare_all(
        Request(cluster="2x4", policies=["fifo", "srtf"], oracle=True), ["synthetic:philly?jobs=40&load=2"], seeds
    )
    runs = [(study, study.run(choice)) for study in studies for choice in study.choices]
    (tmp_path / "report").mkdir()
    write_csv(tmp_path / "report", runs)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    for cell in cells(DOCS / "notebooks" / "comparison.ipynb"):
        if cell["cell_type"] == "code":
            exec("".join(cell["source"]), names)
    figures = [{**result.summary(), "trace": study.workload.name, "seed": study.options.seed} for study, result in runs]
    _, srtf = rows(figures, "fifo")
    assert names["differences"]["srtf"].mean == pytest.approx(srtf.changes["avg_jct"].mean)
    assert names["differences"]["srtf"].known is (seeds > 1)
    assert f"2 policies, {2 * seeds} runs, {80 * seeds} jobs, 0 not completed" in capsys.readouterr().out
    assert len(plt.get_fignums()) == 3
