"""The survey: what it reads and refuses, and that no kill loses or repeats a turn."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import json
import os
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import attrs
import pytest

from ramet import SqliteReader
from ramet.lifecycle.cli import main as ramet_command
from ramet.lifecycle.cli_tree import rows_below
from ramet.mailbox.events import StepEnded, TurnEnded, TurnOpened
from tests.examples import counting_survey
from tests.lifecycle.commands import environment

PROJECT = Path(__file__).resolve().parent.parent.parent
EXAMPLES = PROJECT / "examples"
PROGRAM = Path(counting_survey.__file__)

MADE_UP = {
    "one.md": "# One\n\nThe first document of a test.\n",
    "two.md": "# Two\n\nThe second document of a test, a little longer.\n",
    "three.md": "# Three\n\nThe third one.\n",
}


@pytest.fixture(scope="module")
def survey() -> ModuleType:
    """The example as a module."""
    spec = importlib.util.spec_from_file_location("survey", EXAMPLES / "survey.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["survey"] = module
    spec.loader.exec_module(module)
    return module


@attrs.frozen
class Ended:
    """How a process ended: its status, its result, and the requests it made."""

    status: int
    out: str
    err: str
    requests: tuple[tuple[str, int, int], ...]
    writes: int

    @property
    def result(self) -> dict[str, Any]:
        """The result on standard output."""
        found: dict[str, Any] = json.loads(self.out)
        return found


class Desk:
    """A folder with documents, and the survey of them with a mind that counts."""

    def __init__(self, folder: Path, files: dict[str, str]) -> None:
        self.folder = folder
        for name, text in files.items():
            (folder / name).write_text(text)
        self.files = list(files)
        self.script = folder / "counted.py"
        self.script.write_text(
            "import sys\n"
            f"sys.path[:0] = [{str(EXAMPLES)!r}, {str(PROGRAM.parent)!r}]\n"
            "from pathlib import Path\n"
            "from counting_survey import counting\n"
            "from survey import main, root\n"
            f"model = counting(Path({str(folder / 'counts')!r}))\n"
        )

    def ramet(self, *words: str, kill: str = "never") -> Ended:
        """Run `ramet` in this folder; `kill` says when the process dies."""
        counts = self.folder / "counts"
        counts.write_text("")
        done = subprocess.run(
            [sys.executable, str(PROGRAM), str(counts), *kill.split(), "--", *words],
            cwd=self.folder,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=120,
        )
        lines = counts.read_text().splitlines()
        requests = [line.split()[:3] for line in lines if not line.startswith("#")]
        writes = [int(line.split()[1]) for line in lines if line.startswith("#")]
        return Ended(
            done.returncode,
            done.stdout,
            done.stderr,
            tuple((session, int(turn), int(step)) for session, turn, step in requests),
            writes[0] if writes else 0,
        )

    def run(self, store: str, *words: str, kill: str = "never") -> Ended:
        """Survey every document into a store."""
        return self.ramet(
            "run", self.script.name, "--store", store, *words, "--", *self.files,
            kill=kill,
        )  # fmt: skip

    def turns(self, store: str) -> tuple[set[tuple[str, int]], Counter[str]]:
        """The turns that ended well, and the requests of those that did not."""
        reader = SqliteReader(self.folder / store)
        finished: set[tuple[str, int]] = set()
        cut: Counter[str] = Counter()
        try:
            for row in rows_below(reader, None):
                steps = 0
                turn = 0
                for event in reader.load(row.session):
                    if isinstance(event, TurnOpened):
                        turn, steps = event.turn, 0
                    elif isinstance(event, StepEnded):
                        steps += 1
                    elif isinstance(event, TurnEnded):
                        if event.status == "completed":
                            finished.add((row.session, turn))
                        else:
                            cut[row.session] += steps
                        turn = 0
                if turn:
                    cut[row.session] += steps
        finally:
            reader.close()
        return finished, cut


def told(result: dict[str, Any]) -> dict[str, Any]:
    """A result without what is another one in every run."""
    files = [{k: v for k, v in one.items() if k != "child"} for one in result["files"]]
    return {"files": files, "choice": result["choice"], "card": result["card"]}


def command(*words: str) -> tuple[int, str]:
    """A command of `ramet` in this process: its status and its output."""
    with contextlib.redirect_stdout(io.StringIO()) as out:
        status = ramet_command(list(words))
    return status, out.getvalue()


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A desk with three documents."""
    return Desk(tmp_path, MADE_UP)


# -- a whole run -----------------------------------------------------------------------


@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_every_file_is_read_reported_followed_up_and_counted(
    desk: Desk, backend: str
) -> None:
    ended = desk.run("s.db", "--backend", backend)
    assert ended.status == 0, ended.err
    result = ended.result
    assert [one["path"] for one in result["files"]] == list(MADE_UP)
    for one in result["files"]:
        assert one["finding"].startswith("To 'Survey ")
        assert one["answer"].startswith("To 'Who needs")
    assert result["choice"]["answer"] == "one.md"
    assert result["card"] == {"path": "one.md", **counting_survey.CARD}
    # Five requests for each file, one for the choice, and one for the card.
    assert result["usage"] == {
        "requests": 17,
        "input_tokens": 170,
        "output_tokens": 34,
        "tool_calls": 3,
    }
    assert len(ended.requests) == len(set(ended.requests)) == 17
    assert "reader of two.md" in ended.err
    status, tree = command("ps", "--store", str(desk.folder / "s.db"))
    assert (status, tree.count("reader of")) == (0, 3)


def test_another_text_gives_another_finding(desk: Desk) -> None:
    before = told(desk.run("a.db").result)
    (desk.folder / "two.md").write_text("# Two\n\nIt was changed.\n")
    after = told(desk.run("b.db").result)
    changed = [
        one["path"]
        for one, other in zip(before["files"], after["files"], strict=True)
        if one != other
    ]
    assert changed == ["two.md"]


def test_a_run_of_one_file_has_no_choice(desk: Desk) -> None:
    desk.files = ["one.md"]
    result = desk.run("s.db").result
    assert result["choice"]["answer"] is None
    assert "fewer than two" in result["choice"]["why"]
    assert result["card"] is None


def test_wrong_words_fail_the_run_in_one_sentence(desk: Desk) -> None:
    for words in (["--most", "0"], ["--nothing"], ["--together", "x"]):
        ended = desk.ramet("run", "counted.py", "--store", "s.db", "--", *words)
        assert (ended.status, ended.out) == (1, "")
        assert "the run failed: survey: " in ended.err
        assert "Traceback" not in ended.err
        assert ended.requests == ()


# -- kills -----------------------------------------------------------------------------

POINTS = 20
SEED = 20_261_130


FIRST_WRITES = range(2, 32)
"""A whole run has more; how many depends on what is stored together."""


def kills() -> list[str]:
    """When processes die: at writes by chance, and between acceptance and result."""
    chance = random.Random(SEED)
    reports = [f"report {number}" for number in (1, 2, 3, 4)]
    drawn = sorted(chance.sample(FIRST_WRITES, POINTS - len(reports)))
    return [*reports, *(f"{chance.choice(('before', 'after'))} {n}" for n in drawn)]


def test_no_kill_loses_or_repeats_a_finished_turn(
    desk: Desk, remark: Callable[[str], None]
) -> None:
    whole = desk.run("whole.db")
    assert whole.status == 0, whole.err
    assert whole.writes > FIRST_WRITES[-1]
    shown = []
    for number, kill in enumerate(kills()):
        store = f"kill{number}.db"
        backend = ("asyncio", "trio")[number % 2]
        first = desk.run(store, "--backend", backend, kill=kill)
        assert (first.status, first.out) == (-9, ""), kill
        finished, cut = desk.turns(store)
        look(desk, store)
        # Every fourth is killed again while it is taken up.
        requests = list(first.requests)
        died = 1
        if number % 4 == 3:
            second = desk.ramet("resume", "--store", store, kill="after 6")
            assert second.status in (-9, 0)
            requests += second.requests
            assert not repeated(finished, second)
            finished, cut = desk.turns(store)
            died += 1
        last = desk.ramet("resume", "--store", store)
        if "[no-recorded-calls]" in last.err:
            # It died before it had asked for anything: it is run again.
            assert (requests, finished) == ([], set())
            last = desk.run(f"again{number}.db")
        assert last.status == 0, f"{kill}: {last.err}"
        assert told(last.result) == told(whole.result), kill
        assert not repeated(finished, last), kill
        requests += last.requests
        assert len(requests) == len(set(requests)), kill
        extra = len(requests) - len(whole.requests)
        # Of two readers at work, each may have had a request on its way, in no log.
        assert 0 <= extra <= sum(cut.values()) + 2 * died
        shown.append(f"{kill} on {backend}: {extra} requests more")
    remark(f"survey killed with seed {SEED}: {'; '.join(shown)}")


def repeated(finished: set[tuple[str, int]], ended: Ended) -> set[tuple[str, int]]:
    """The finished turns that a process asked the model for again."""
    return finished & {(session, turn) for session, turn, _ in ended.requests}


def look(desk: Desk, store: str) -> None:
    """The store of a dead process can be read by the commands that look."""
    path = str(desk.folder / store)
    status, tree = command("ps", "--store", path)
    assert (status, "lead" in tree, "cut" in tree) == (0, True, True)
    status, document = command("ps", "--store", path, "--json")
    assert status == 0
    json.loads(document)
    reader = SqliteReader(path)
    try:
        sessions = [row.session for row in rows_below(reader, None)]
    finally:
        reader.close()
    for session in sessions:
        status, log = command("log", session, "--store", path)
        assert status == 0
        assert "created" in log


# -- what is read ----------------------------------------------------------------------


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A folder with everything that a file can be wrong in."""
    folder = tmp_path / "odd"
    (folder / "below").mkdir(parents=True)
    (folder / "below" / "deep.md").write_text("# Deep\n\nIt is here.\n")
    (folder / "good.md").write_text("# Good\n\nSomething.\n")
    (folder / "empty.md").write_text("")
    (folder / "blank.md").write_text(" \n\n\t")
    (folder / "binary.bin").write_bytes(b"\x7fELF\0\0")
    (folder / "latin.txt").write_bytes("caf\xe9".encode("latin-1"))
    (folder / "huge.txt").write_bytes(b"a" * 1_000_001)
    (folder / ".hidden").write_text("not looked at")
    os.mkfifo(folder / "pipe")
    (tmp_path / "secret.md").write_text("SECRET")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "inner.md").write_text("SECRET")
    (folder / "link.md").symlink_to(tmp_path / "secret.md")
    (folder / "way").symlink_to(tmp_path / "elsewhere")
    (folder / "round").symlink_to(folder)
    return folder


def test_whatever_is_no_readable_text_is_skipped_and_said_so(
    survey: ModuleType, odd: Path
) -> None:
    documents, skipped, left_out = survey.gather([odd], 9)
    assert [one.path for one in documents] == [
        str(odd / "good.md"),
        str(odd / "below" / "deep.md"),
    ]
    why = {Path(one["path"]).name: one["skipped"] for one in skipped}
    assert why == {
        "empty.md": "it is empty",
        "blank.md": "it is empty",
        "binary.bin": "it is binary",
        "latin.txt": "it is not UTF-8 text: unexpected end of data",
        "huge.txt": "it has more than 1000000 bytes",
        "pipe": "it is not a regular file",
        "link.md": "it is a link, and links are not followed",
        "way": "it is a link, and links are not followed",
        "round": "it is a link, and links are not followed",
    }
    assert left_out == []


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("missing.md", "no such file or directory"),
        ("/dev/null", "it is not a regular file"),
        ("odd/link.md", "it is a link, and links are not followed"),
        ("odd/way", "it is a link, and links are not followed"),
        ("a\0b", "it cannot be a file"),
        ("x" * 300, "file name too long"),
    ],
)
def test_a_path_that_names_no_text_is_said_so(
    survey: ModuleType,
    odd: Path,
    monkeypatch: pytest.MonkeyPatch,
    given: str,
    why: str,
) -> None:
    monkeypatch.chdir(odd.parent)
    documents, skipped, _ = survey.gather([given], 9)
    assert documents == []
    (one,) = skipped
    assert why in one["skipped"]


def test_a_file_that_becomes_a_link_is_not_read_through_it(
    survey: ModuleType, odd: Path
) -> None:
    (document,) = survey.gather([odd / "good.md"], 9)[0]
    assert "Something" in document.beginning()
    (odd / "good.md").unlink()
    (odd / "good.md").symlink_to(odd.parent / "secret.md")
    with pytest.raises(survey.UnreadableError, match="link"):
        document.beginning()
    deep = survey.gather([odd], 9)[0][0]
    assert deep.path.endswith("deep.md")
    (odd / "below" / "deep.md").unlink()
    (odd / "below").rmdir()
    (odd / "below").symlink_to(odd.parent / "elsewhere")
    with pytest.raises(survey.UnreadableError):
        deep.beginning()


def test_a_folder_above_that_becomes_a_link_is_not_followed(
    survey: ModuleType, odd: Path
) -> None:
    (document,) = survey.gather([odd / "good.md"], 9)[0]
    elsewhere = odd.parent / "moved"
    odd.rename(odd.parent / "kept")
    elsewhere.mkdir()
    (elsewhere / "good.md").write_text("a secret")
    odd.symlink_to(elsewhere)
    with pytest.raises(survey.UnreadableError, match="link"):
        document.beginning()


@pytest.mark.parametrize(
    "piece", ["[", "<", "<!--", "![](", " ", "\n ", "```\n", "[a]["]
)
def test_a_long_text_of_one_piece_is_cleaned(
    survey: ModuleType, tmp_path: Path, piece: str
) -> None:
    text = tmp_path / "hostile.md"
    text.write_text("Begins.\n" + piece * (900_000 // len(piece)))
    (document,) = survey.gather([text], 9)[0]
    assert document.beginning().startswith("Begins.")


def test_a_file_is_surveyed_once_however_it_is_named(
    survey: ModuleType, odd: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(odd)
    names = ["good.md", "./good.md", "below/../good.md", str(odd / "good.md")]
    documents, _, _ = survey.gather(names, 9)
    assert [one.path for one in documents] == ["good.md"]


def test_a_tool_takes_the_name_of_its_own_document_and_nothing_else(
    survey: ModuleType, odd: Path
) -> None:
    strange = odd / 'we"ird\nname.md'
    strange.write_text("text")
    (document,) = survey.gather([strange], 9)[0]
    (tool,) = survey.reader_of(document).tools
    assert tool.parameters["properties"]["path"]["enum"] == ["we_ird_name.md"]
    assert "text" in tool.run({"path": "we_ird_name.md"}, None)


def test_more_files_than_wanted_are_left_out_by_name(
    survey: ModuleType, odd: Path
) -> None:
    documents, _, left_out = survey.gather([odd], 1)
    assert [len(documents), len(left_out)] == [1, 1]


def test_code_links_and_tags_are_not_shown_to_the_model(survey: ModuleType) -> None:
    text = (
        "# A [link](http://x)\n\n```sh\nrm -rf\n```\n\n<b>bold</b> <!-- no -->\n\n\nend"
    )
    assert survey.cleaned(text) == "# A link\n\nbold\n\nend"


def test_there_are_documents_of_its_own_to_survey(survey: ModuleType) -> None:
    documents, _, _ = survey.gather(survey.own_documents(), 6)
    assert len(documents) >= 5


# -- the small model -------------------------------------------------------------------


@pytest.mark.real_model
def test_the_small_model_surveys_two_files_and_sees_that_one_changed(
    tmp_path: Path,
) -> None:
    (tmp_path / "one.md").write_text(
        "# Kettle\n\nThe kettle command boils water and rings a bell.\n"
    )
    (tmp_path / "two.md").write_text("# Garden\n\nRules for those who water roses.\n")
    first = surveyed(tmp_path, "a.db", "one.md", "two.md")
    (tmp_path / "two.md").write_text(
        "# Bridges\n\nHow engineers build long bridges of steel over wide rivers.\n"
    )
    second = surveyed(tmp_path, "b.db", "two.md")
    for result in (first, second):
        if result["choice"]["answer"] is None:
            continue
        card = result["card"]
        assert card["path"] == result["choice"]["answer"] in ("one.md", "two.md")
        assert card["kind"] in ("guide", "reference", "rules", "overview")
        assert 1 <= card["minutes"] <= 240
    before = {one["path"]: one["finding"] for one in first["files"]}
    after = {one["path"]: one["finding"] for one in second["files"]}
    assert before["two.md"] != after["two.md"]


def surveyed(folder: Path, store: str, *files: str) -> dict[str, Any]:
    """A survey by the local model in a process of its own; checks its bookkeeping."""
    done = subprocess.run(
        [
            sys.executable, "-m", "ramet", "run", str(EXAMPLES / "survey.py"),
            "--model", "local", "--store", store, "--", *files,
        ],
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=280,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    result: dict[str, Any] = json.loads(done.stdout)
    answers = []
    reader = SqliteReader(folder / store)
    try:
        for row in rows_below(reader, None):
            answers += [e for e in reader.load(row.session) if isinstance(e, StepEnded)]
    finally:
        reader.close()
    assert result["usage"]["requests"] == len(answers)
    assert result["usage"]["output_tokens"] == sum(
        one.usage.output_tokens or 0 for one in answers if one.usage is not None
    )
    said = {
        json.loads(call.arguments).get("output")
        for one in answers
        for call in one.calls
    }
    assert [one["path"] for one in result["files"]] == list(files)
    assert {one["finding"] for one in result["files"]} <= said
    return result
