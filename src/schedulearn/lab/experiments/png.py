"""Charts as PNG files, for where a page cannot be shown."""

from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from schedulearn.lab.experiments.charts import Chart

_INCHES, _DPI = (9.0, 4.2), 110


def draw(chart: Chart, path: Path) -> Path:
    """No state is shared with other figures: it may be called from any thread."""
    figure = Figure(figsize=_INCHES)
    FigureCanvasAgg(figure)
    # Fixed margins: to have them worked out takes matplotlib ten times as long as all the rest.
    figure.subplots_adjust(left=0.08, right=0.78, top=0.92, bottom=0.12)
    axes = figure.add_subplot()
    if chart.stacked and chart.lines:
        moments = [at for at, _ in chart.lines[0].points]
        axes.stackplot(
            moments,
            [[value for _, value in line.points] for line in chart.lines],
            labels=[line.name for line in chart.lines],
        )
    else:
        for line in chart.lines:
            axes.plot([at for at, _ in line.points], [value for _, value in line.points], label=line.name)
    for at, _ in chart.marks:
        axes.axvline(at, linestyle=":", linewidth=0.8, color="black")
    axes.set(title=chart.title, xlabel=chart.x_title, ylabel=chart.y_title, ylim=(0, chart.top))
    if chart.lines:
        axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0), fontsize="x-small", frameon=False)
    figure.savefig(path, dpi=_DPI)
    return path
