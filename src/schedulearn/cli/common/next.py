"""What is useful once the service runs, as commands."""

from pathlib import Path

from schedulearn.cli.common.data import data_folder


def next_commands(data: Path) -> dict[str, str]:
    """What is useful once the service runs."""
    elsewhere = data != data_folder(None)
    steps = {"use this folder": f"export SCHEDULEARN_DATA={data}"} if elsewhere else {}
    usual = {"run a job": "schedulearn run -- python train.py", "watch": "schedulearn top"}
    return {**steps, **usual, "stop (jobs keep running)": down_words(data)}


def down_words(data: Path) -> str:
    """What stops all that runs on this folder."""
    return "schedulearn down" + ("" if data == data_folder(None) else f" --data {data}")


def link_words(page: str) -> str:
    """What prints a link that logs in, where the page is not at the service's own address."""
    return f"schedulearn tokens link --page {page}"
