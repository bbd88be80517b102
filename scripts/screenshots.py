"""Pictures of every page, light and dark, for a desk and for a phone, out of a service with real training jobs.

`python scripts/screenshots.py [FOLDER]` writes them (docs/pictures unless told otherwise). Needs Chromium.
"""

import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.append(str(ROOT / "tests"))  # where the browser is driven

from schedulearn.client import Client  # noqa: E402
from support.browser import Browser, Page  # noqa: E402
from support.service import Service, run_cli  # noqa: E402
from support.waiting import wait_until  # noqa: E402

WIDTHS = {"desk": (1280, 800), "phone": (390, 844)}
MOST = {"desk": 950, "phone": 1700}  # pixels of a picture from the top
SETTLE = 1.0  # seconds for a page to take its new shape
# A chart that is made before the page is laid out is narrow, and takes its room when the browser tells it.
CHARTS_FIT = """[...document.querySelectorAll('.curve, .strips')].every(
    chart => (chart.querySelector('svg')?.clientWidth ?? 0) > chart.clientWidth / 2)"""
WARM_UP = 45.0  # seconds until there is something to see
# name, script, epochs, seconds an epoch, and what else its user asks for
JOBS = [
    ("rate-0.01", "digits_sgd.py", 30, 0.3, {}),
    ("rate-0.03", "digits_sgd.py", 50, 0.3, {}),
    ("rate-0.1", "digits_sgd.py", 80, 0.3, {}),
    ("rate-0.3", "digits_sgd.py", 120, 0.3, {}),
    ("autoencoder", "autoencoder.py", 400, 0.4, {}),
    ("mlp-wide", "digits_mlp.py", 400, 0.4, {}),
    ("forest", "digits_forest.py", 400, 0.4, {}),
    ("mlp-deep", "digits_mlp.py", 400, 0.4, {}),
    ("urgent", "digits_sgd.py", 300, 0.3, {"priority": 90}),
    ("ablation", "digits_sgd.py", 300, 0.3, {}),
    ("broken", "missing.py", 1, 0.1, {"priority": 95}),
]
PAGES = {
    "overview": "/",
    "jobs": "/jobs",
    "job": "/jobs/5",
    "timeline": "/timeline?span=60",
    "submit": "/submit",
    "policies": "/policies",
    "results": "/results",
    "result": "/results/comparison-1",
}
# What is typed into the form.
TYPED = {
    "command": "python train.py --epochs 20", "name": "mnist", "workers": "1..2", "cpus": "0.5..1", "priority": "60",
    "time_limit": "six hours", "target": "loss=0.05:stop",
}  # fmt: skip


def main() -> None:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "pictures"
    folder.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory() as data,
        Service(Path(data) / "data") as service,
        Browser() as browser,
        service.client() as client,
        browser.page() as page,
    ):
        project = shutil.copytree(ROOT / "examples", Path(data) / "digits")
        submit(client, project)
        study(client, Path(data) / "data" / "reports")
        page.log_in(f"{service.url}/login?once={client.login_code()['code']}")
        page.wait_for("Servers")
        time.sleep(WARM_UP)
        for name, path in PAGES.items():
            if name == "policies":
                what_if(client)
            page.open(service.url + path)
            if name == "submit":
                for field, text in TYPED.items():
                    page.fill(f"[name={field}]", text)
                page.script("document.activeElement.blur(); scrollTo(0, 0)")
            take(page, folder, name)


def submit(client: Client, project: Path) -> None:
    # As if this virtual environment had been activated.
    os.environ["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    for name, script, epochs, pace, more in JOBS:
        command = ["python", script, "--epochs", str(epochs), "--pace", str(pace)]
        spec = {"name": name, "command": command, "resources": {"cpus": 0.5}, "steps": epochs, **more}
        client.submit(spec, project)


def study(client: Client, reports: Path) -> None:
    """A comparison and an experiment, so that there are reports."""
    asked = {"id": 0, "gpus": 1, "workers": {"min": 1, "want": 2, "max": 4}, "user": "ann"}
    lines = [{**asked, "id": i, "submitted_at": 40 * i, "run_seconds": 60 + i * 7919 % 1500} for i in range(200)]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    client.compare(["fifo", "srjf", "srtf", "tiresias", "elastic-fifo"], text, "last-week.jsonl", "2x8")
    run_cli("experiment", "run", "fixed-3", "--seeds", "3", "--out", str(reports / "fixed-3"))
    wait_until(lambda: all(one["state"] == "done" for one in client.studies()), 300, "the comparison is done")


def what_if(client: Client) -> None:
    """On the queue as it is by now, so that the page shows it."""
    name = client.what_if(["fifo", "srjf", "elastic-fifo"])["name"]
    wait_until(lambda: client.study(name)["state"] == "done", 300, "it is foreseen")


def take(page: Page, folder: Path, name: str) -> None:
    for theme in ("light", "dark"):
        for device, (width, height) in WIDTHS.items():
            framed = page.count("iframe[title]")  # what lies outside of the window is not drawn in a frame
            page.resize(width, MOST[device] if framed else height, dark=theme == "dark")
            page.script("document.querySelectorAll('iframe').forEach(frame => { frame.src = frame.src })")
            time.sleep(SETTLE)
            wait_until(lambda: page.script(CHARTS_FIT), 60, "the charts have their width")
            page.screenshot(folder / f"{name}-{theme}-{device}.png", MOST[device])


if __name__ == "__main__":
    main()
