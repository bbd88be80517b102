"""What a job writes, and what others call things, cannot steer the reader's terminal."""

import json
import re
import unicodedata
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from schedulearn.cli.view.terminal import OutputFilter, json_text, only_colours
from schedulearn.core.domain.errors import Conflict
from schedulearn.wire.clean import clean

ALLOWED = re.compile(r"\x1b\[(?:[0-9;:]*m|[012]?K|0?J|[0-9]{0,4}[A-G])")
CONTROLS = re.compile(r"[\x00-\x07\x0b\x0c\x0e-\x1f\x7f-\x9f]")
PIECES = (
    *(
        "\x1b",
        "[",
        "]",
        "m",
        "A",
        "31",
        "\n",
        "\r",
        "\b",
        ";",
        "?",
        " ",
        "\x07",
        "\x9b",
        "\x9c",
        "\x1b\\",
        "é",
        "é\u202e",
    ),
    *(
        "\x1b[31m",
        "\x1b[0m",
        "\x1b[2J",
        "\x1b[5A",
        "\x1b[K",
        "\x1b]52;c;eA==\x07",
        "\x1bP1",
        "\x1b_G",
        "\x1bc",
        "\x1b(0",
    ),
    *("\x1b[1;2", "\x1b[>4;2m", "\x1b[6n", "\x1b[?1049h", "9" * 70, "\x18", "\x00", "\x85"),
)
outputs = st.one_of(
    st.binary(max_size=60),
    st.lists(st.sampled_from(PIECES), max_size=20).map(lambda pieces: "".join(pieces).encode()),
    st.lists(st.sampled_from([*(p.encode() for p in PIECES), b"\xc2", b"\x9b", b"\xe2\x80"]), max_size=20).map(
        b"".join
    ),
)


def hidden(text: str) -> list[str]:
    """Controls, line breaks, and marks that cannot be seen."""
    return [c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Zl", "Zp")]


def passed(*chunks: bytes, encoding: str = "utf-8") -> bytes:
    output = OutputFilter(encoding)
    return b"".join([*map(output.feed, chunks), output.close()])


@given(outputs)
@example(b"\x1b\x1b]0;x\x07[2J")
@example(b"\x1b]0;\x1b[2J")
def test_nothing_but_colours_and_bars_gets_to_a_terminal(data):
    shown = passed(data).decode()
    assert not CONTROLS.search(ALLOWED.sub("", shown)), shown


@given(outputs)
def test_what_has_passed_passes_again(data):
    assert passed(passed(data)) == passed(data)


@given(outputs, st.lists(st.integers(0, 60), max_size=6))
def test_how_the_output_is_cut_makes_no_difference(data, cuts):
    places = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    chunks = [data[a:b] for a, b in pairwise(places)]
    assert passed(*chunks) == passed(data)


@given(st.text(st.characters(exclude_categories=["Cc", "Cs"])))
def test_plain_text_is_left_alone(text):
    assert passed(text.encode()) == text.encode()


@given(outputs, st.sampled_from(["ascii", "latin-1", "utf-8"]))
def test_the_terminal_is_written_to_in_its_own_encoding(data, encoding):
    """In one of 8 bits, the bytes of other signs would be controls."""
    shown = passed(data, encoding=encoding).decode(encoding)
    assert not CONTROLS.search(ALLOWED.sub("", shown)), shown


@given(outputs)
def test_the_cursor_never_goes_above_the_first_line(data):
    row = 0
    for step in re.finditer(r"\n|\x1b\[(\d*)([AF])", passed(data).decode()):
        row += 1 if step[0] == "\n" else -int(step[1] or 1)
        assert row >= 0


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        (b"\x1b[1;31mred\x1b[0m", b"\x1b[1;31mred\x1b[0m"),
        (b" 10%\r 20%\x1b[K\b\t", b" 10%\r 20%\x1b[K\b\t"),
        (b"a\nb\n\x1b[2A\x1b[2Ka\x1b[1B", b"a\nb\n\x1b[2A\x1b[2Ka\x1b[1B"),  # bars, one below the other
        (b"\x1b[Aover it", b"over it"),  # the line above is not the job's
        (b"a\n\x1b[9Ab", b"a\n\x1b[1Ab"),
        (b"\x1b]0;title\x07a\x1b]52;c;cm0gLXJm\x1b\\b", b"ab"),
        (b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", b"link"),
        (b"\x1b]0;no end\nthe next line", b"\nthe next line"),
        (b"\x1bP1;1|17/17\x1b\\a\x1b_x\x1b\\b\x1b^y\x1b\\c\x1bXz\x1b\\d", b"abcd"),
        (b"a\x1bcb\x1b[2Jc\x1b[1;1Hd\x1b[?1049he\x1b[6nf\x1b7g\x1bMh", b"abcdefgh"),
        (b"\x0e\x07\x00\x7fa", b"a"),
        (b"\xc2\x9b2Ja\xc2\x9d0;x\xc2\x9c", b"2Ja0;x"),
        (b"\x9b2Ja", "�2Ja".encode()),
        (b"\x1b[>4;2ma\x1b[ q", b"a"),
        (b"\x1b[31mnot ended", b"\x1b[31mnot ended\x1b[0m"),
        (b"cut \x1b[3", b"cut "),
    ],
)
def test_of_each_kind(written, shown):
    assert passed(written) == shown
    assert passed(*(bytes([byte]) for byte in written)) == shown


@given(st.text())
def test_words_show_what_is_hidden(text):
    shown = clean(text)
    assert not hidden(shown)
    assert len(shown) >= len(text)
    assert clean(shown) == shown


def test_marks_that_turn_the_direction_are_seen():
    assert clean("a\u202egpj.exe\x1b[2J\n\x9b") == r"a\u202egpj.exe\x1b[2J \x9b"


@given(st.text())
def test_lines_keep_their_colours_alone(text):
    shown = only_colours(f"\x1b[31m{text}\x1b[0m\n")
    assert shown.startswith("\x1b[31m")
    assert not hidden(re.sub(r"\x1b\[[0-9;:]*m|[\n\t]", "", shown))
    assert only_colours(shown) == shown


@given(st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_json_hides_nothing_and_says_the_same(value):
    written = json_text(value)
    assert json.loads(written) == value
    assert not hidden(written.replace("\n", ""))


# --- the verbs

EVIL = b"\x1b]0;owned\x07\x1b[2J\x1b[31mred\x1b[0m \xc2\x9b2J\n"


def test_logs_on_a_terminal_and_in_a_pipe(cli, terminal, jobs):
    jobs.write(20, EVIL)
    assert cli("logs", 20).raw == EVIL
    code, shown = terminal(80, "logs", "20")
    assert (code, shown) == (0, "\x1b[31mred\x1b[0m 2J\r\n")
    _, shown = terminal(80, "logs", "20", "-f")
    assert "owned" not in shown
    assert "\x1b[2J" not in shown
    _, shown = terminal(80, "logs", "20", "--raw")
    assert shown == EVIL.decode().replace("\n", "\r\n")
    _, shown = terminal(80, "logs", "20", "-f", "--raw")
    assert EVIL.decode().strip() in shown


def test_json_has_no_control_characters(cli, jobs):
    jobs.rename(20, "a\x9b\u202e")
    jobs.write(20, EVIL)
    for result in (cli("logs", 20, "--json"), cli("describe", 20, "--json"), cli("ls", "--all", "--json")):
        assert not hidden(result.out.replace("\n", ""))
    assert cli("describe", 20, "--json").json["name"] == "a\x9b\u202e"


def test_fetched_files_are_named_on_one_line_each(cli, jobs):
    jobs.make_files(20, {"a\x1b[2J\nFetched": b""})
    out = cli("pull", 20).out
    assert r"a\x1b[2J Fetched" in out
    assert len(out.splitlines()) == 2


def test_a_refusal_cannot_steer_the_terminal(terminal, jobs, monkeypatch):
    def refuse(*_args):
        raise Conflict("no\x1b]0;owned\x07\x9b \u202eway")

    monkeypatch.setattr(jobs.gateway, "cancel", refuse)
    _, shown = terminal(80, "cancel", "17")
    assert "\x1b]" not in shown
    assert "\x9b" not in shown
    assert r"\u202eway" in shown
