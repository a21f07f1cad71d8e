"""A survey of documents by sub-agents: the main example of ramet.

    ramet run examples/survey.py --model local
    ramet run examples/survey.py --model local -- [--most N] [--together N] PATH...

A lead starts one continuable child for each file.  The child reads its file by a tool,
reports what it found, takes one question more, reports the answer, and settles.  At the
end a one-shot child is asked which document a newcomer should read first, and replies;
another one fills in a card for it, of which every field has its type.  The result is
one JSON document; without paths it is about this project's own documents.

It works with any model.  The small local one is right about one file in three: what
this shows is how agents work together, not how clever they are.
"""

from __future__ import annotations

import argparse
import errno
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import anyio
import attrs
import msgspec

import ramet

HUGE = 1_000_000
"""Files of more bytes than this are not read."""

LOOKED_AT = 20_000
"""Characters of a text that are cleaned for its beginning."""

SHOWN = 1500
"""How many characters of a file its reader sees: small models read slowly."""

MOST_ENTRIES = 5_000
"""How many entries of a folder are looked at."""

NAMED = 20
"""How many of the files that are left out are named in the result."""

ASK = "Write one plain English sentence that says what this document is about."
QUESTION = "Who needs this document? Answer in one sentence."
CHOICE = "Which of these documents should a newcomer read first?"
CARD = "Fill in the library card of this document."
NOTE = (
    "The sentences are the model's own and may be wrong, those of a small model often:"
    " what is certain is who wrote them and what it cost."
)


@attrs.frozen
class Card:
    """What stands on the library card of a document."""

    title: str
    kind: Literal["guide", "reference", "rules", "overview"]
    minutes: Annotated[int, msgspec.Meta(ge=1, le=240, description="to read it")]


root = ramet.AgentSpec("lead")
"""The lead: its mind is `main`, below."""


async def main(flow: ramet.Flow) -> dict[str, Any]:
    """Survey the documents, and give the result."""
    options = read_options(flow.args)
    documents, skipped, left_out = gather(
        options.paths or own_documents(), options.most
    )
    flow.phase("survey")
    found: dict[str, dict[str, Any]] = {one["path"]: one for one in skipped}
    places = anyio.CapacityLimiter(options.together)

    async def survey_into(document: Document) -> None:
        async with places:
            found[document.path] = await survey(flow, document)

    async with anyio.create_task_group() as group:
        for document in documents:
            group.start_soon(survey_into, document)
    order = [document.path for document in documents]
    order += [one["path"] for one in skipped]
    files = [found[path] for path in order]
    flow.phase("choice")
    choice = await choose(flow, [one for one in files if "finding" in one])
    flow.phase("card")
    chosen = [one for one in files if one["path"] == choice["answer"]]
    card = await card_of(flow, chosen)
    usage = (await flow.supervisor.usage(flow.root.id)).subtree
    return {
        "files": files,
        "left_out": {"count": len(left_out), "first": left_out[:NAMED]},
        "choice": choice,
        "card": card,
        "usage": {
            "requests": usage.requests,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "tool_calls": usage.tool_calls,
        },
        "run": flow.root.id,
        "model": flow.model,
        "note": NOTE,
    }


# -- one document, one child -----------------------------------------------------------


async def survey(flow: ramet.Flow, document: Document) -> dict[str, Any]:
    """Have one document read, reported on and asked about by a child of its own."""
    child = await flow.spawn(
        f"Survey {document.name}.", spec=reader_of(document), label=document.path
    )
    first = child.assignment
    ended = await first.outcome()
    reports = await first.reports()
    if ended.status != "completed" or not reports:
        why = "its reader did not report" if ended.status == "completed" else str(ended)
        return {"path": document.path, "skipped": why, "child": child.id}
    entry = {"path": document.path, "finding": reports[-1], "child": child.id}
    more = await child.send(QUESTION)
    ended = await more.outcome()
    answers = await more.reports()
    entry["question"] = QUESTION
    entry["answer"] = answers[-1] if answers else None
    return entry


async def choose(
    flow: ramet.Flow, findings: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Have a one-shot child choose among the documents; it answers by its reply."""
    members = [one["path"] for one in findings]
    choice: dict[str, Any] = {"question": CHOICE, "members": members, "answer": None}
    if len(members) < 2:
        choice["why"] = "there are fewer than two documents to choose from"
        return choice
    lines = [f"{one['path']}: {one['finding']}" for one in findings]
    prompt = "\n".join((CHOICE, "", *lines))
    spec = ramet.AgentSpec("chooser", "You choose one document by its name.")
    try:
        choice["answer"] = await flow.agent(
            prompt, label="choice", choice=members, spec=spec
        )
    except ramet.OutcomeError as error:
        choice["why"] = str(error)
    return choice


async def card_of(
    flow: ramet.Flow, chosen: Sequence[dict[str, Any]]
) -> dict[str, Any] | None:
    """Have a one-shot child fill in the card of the chosen document."""
    for one in chosen:
        prompt = f"{CARD}\n\n{one['path']}: {one['finding']}"
        spec = ramet.AgentSpec("librarian", "You fill in library cards.")
        try:
            card: Card = await flow.agent(prompt, label="card", returns=Card, spec=spec)
        except ramet.OutcomeError as error:
            return {"path": one["path"], "why": str(error)}
        return {"path": one["path"]} | attrs.asdict(card)
    return None


def reader_of(document: Document) -> ramet.AgentSpec:
    """The spec of a document's reader: its one tool reads this document and no other.

    Each reader has a name of its own, so that a resumed run binds the right tool.
    """

    def read_file(arguments: dict[str, Any], call: ramet.ToolCall) -> str:
        return f"{document.name}:\n\n{document.beginning()}\n\n{ASK}"

    only = {"type": "string", "enum": [document.name]}
    parameters = {
        "type": "object",
        "properties": {"path": only},
        "required": ["path"],
        "additionalProperties": False,
    }
    tool = ramet.Tool("read_file", "Read the document.", parameters, read_file)
    return ramet.AgentSpec(
        f"reader of {document.path}",
        INSTRUCTIONS,
        tools=[tool],
        limits=ramet.Limits(requests=60),
    )


def _example(name: str, text: str, finding: str, answer: str) -> str:
    """Worked answers help a small model more than any description."""
    report = '{"tool":"report","arguments":{"output":"%s"}}'
    steps = (
        (f"{name}:\n\n{text}\n\n{ASK}", report % finding),
        (QUESTION, report % answer),
    )
    return "\n".join(
        f"Example request:\n{asked}\nExample answer:\n{given}" for asked, given in steps
    )


INSTRUCTIONS = "\n".join(
    (
        "You describe documents in plain English: you read a document with read_file,"
        " and you report one sentence about it with report.",
        "",
        _example(
            "rotatelog.md",
            "# rotatelog\n\nSmall command that renames a log file when it grows past a"
            " size and starts a new one. Options: --max-size, --keep.",
            "The rotatelog command renames a log file when it gets too big and starts a"
            " new one.",
            "People who run servers and want small log files.",
        ),
        _example(
            "reviews.md",
            "# Code reviews\n\nEvery change needs one approval from a maintainer."
            " Reviews should be kind. A change that waits for more than two days may be"
            " merged by its author.",
            "Rules of the project for code reviews: who must approve a change and how"
            " long to wait.",
            "People who send changes to the project.",
        ),
        _example(
            "Timer.md",
            "# Class: Timer\n\n## new Timer(ms, callback)\n\nCalls the callback after a"
            " delay. timer.stop() cancels it.",
            "Reference of the Timer class, which calls a function after a delay.",
            "Programmers who call a function later.",
        ),
    )
)


# -- documents: what is read, and what is not ------------------------------------------


LINK = "it is a link, and links are not followed"


class UnreadableError(Exception):
    """Says why a file is not surveyed."""


@attrs.frozen
class Document:
    """One file below a folder that was given; nothing else can be read through it.

    Attributes:
        path: how a person names it.
        folder: where it is looked for, without any link.
        steps: the way from there, name by name.
    """

    path: str
    folder: Path
    steps: tuple[str, ...]
    _identity: tuple[int, int] | None = attrs.field(init=False, eq=False)

    @_identity.default
    def _identify(self) -> tuple[int, int] | None:
        try:
            return identity(os.stat(self.folder))
        except (OSError, ValueError):
            return None

    @property
    def name(self) -> str:
        """Its name, as a model can write it."""
        return re.sub(r"[^A-Za-z0-9._-]", "_", self.steps[-1])[:60] or "document"

    def beginning(self) -> str:
        """The beginning of its text, without what misleads a small model.

        Raises:
            UnreadableError: it is not a text file of a fair size, or not there.
        """
        text = cleaned(self.text()[:LOOKED_AT])
        return text[:SHOWN] or "(no words, only code or links)"

    def text(self) -> str:
        """Its whole text.

        Raises:
            UnreadableError: as `beginning`.
        """
        data = self._bytes()
        if len(data) > HUGE:
            raise UnreadableError(f"it has more than {HUGE} bytes")
        if not data.strip():
            raise UnreadableError("it is empty")
        if b"\0" in data:
            raise UnreadableError("it is binary")
        try:
            text = data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise UnreadableError(f"it is not UTF-8 text: {error.reason}") from None
        if not text.strip():
            raise UnreadableError("it is empty")
        return text

    def _bytes(self) -> bytes:
        """Read it step by step, so that no link can lead out at any moment."""
        folder_flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
        try:
            at = os.open(self.folder, folder_flags)
            try:
                if identity(os.fstat(at)) != self._identity:
                    # A folder above it became a link to somewhere else.
                    raise UnreadableError(LINK)
                for step in self.steps[:-1]:
                    below = os.open(step, folder_flags, dir_fd=at)
                    os.close(at)
                    at = below
                name = self.steps[-1]
                check_regular(os.stat(name, dir_fd=at, follow_symlinks=False))
                # Without waiting: it may have become a pipe that nobody writes to.
                flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
                found = os.open(name, flags, dir_fd=at)
            finally:
                os.close(at)
            with os.fdopen(found, "rb") as file:
                check_regular(os.fstat(found))
                return file.read(HUGE + 1)
        except OSError as error:
            if error.errno in (errno.ELOOP, errno.ENOTDIR):
                raise UnreadableError(LINK) from None
            why = (error.strerror or type(error).__name__).lower()
            raise UnreadableError(why) from None
        except ValueError as error:
            raise UnreadableError(f"it cannot be a file: {error}") from None


def identity(status: os.stat_result) -> tuple[int, int]:
    """Which file or folder it is, whatever it is called."""
    return status.st_dev, status.st_ino


def check_regular(status: os.stat_result) -> None:
    """Refuse whatever is no regular file."""
    if stat.S_ISLNK(status.st_mode):
        raise UnreadableError(LINK)
    if stat.S_ISDIR(status.st_mode):
        raise UnreadableError("it is a folder")
    if not stat.S_ISREG(status.st_mode):
        raise UnreadableError("it is not a regular file")


def cleaned(text: str) -> str:
    """A text without code blocks, comments, tags and the targets of links."""
    text = re.sub(r"(?ms)^(```|~~~).*?(^\1|\Z)", "", text)
    text = re.sub(r"(?s)<!--.*?-->|<[^<>\n]{1,300}>", "", text)
    link = r"!?\[([^\[\]\n]{0,300})\](\([^()\n]{0,300}\)|\[[^\[\]\n]{0,300}\])"
    text = re.sub(link, r"\1", text)
    return re.sub(r"[ \t]*\n\s*\n\s*", "\n\n", text).strip()


def gather(
    paths: Iterable[str | Path], most: int
) -> tuple[list[Document], list[dict[str, Any]], list[str]]:
    """The documents to survey, what is skipped and why, and what is one too many."""
    documents: list[Document] = []
    skipped: list[dict[str, Any]] = []
    left_out: list[str] = []
    seen: set[tuple[Path, tuple[str, ...]]] = set()
    for document in (one for path in paths for one in candidates(Path(path))):
        real = (document.folder, document.steps)
        if real in seen:
            continue
        seen.add(real)
        try:
            document.text()
        except UnreadableError as error:
            skipped.append({"path": document.path, "skipped": str(error)})
            continue
        if len(documents) < most:
            documents.append(document)
        else:
            left_out.append(document.path)
    return documents, skipped, left_out


def candidates(given: Path) -> Iterator[Document]:
    """The document that a path names, or those of the folder that it names."""
    try:
        folder = given.parent.resolve()
        name = given.name
        if name in ("", "..") or not name.strip("."):
            folder = given.resolve()
            folder, name = folder.parent, folder.name
        place = folder / name
        is_folder = not place.is_symlink() and place.is_dir()
    except (OSError, ValueError, RuntimeError):
        # Not even a path: reading it says why.
        yield Document(str(given), given.parent.absolute(), (given.name or ".",))
        return
    if not is_folder:
        yield Document(str(given), folder, (name,))
        return
    for steps in walk(place):
        yield Document(str(given.joinpath(*steps)), place, steps)


def walk(folder: Path) -> Iterator[tuple[str, ...]]:
    """The files below a folder, without what is hidden; no link is followed."""
    stack: list[tuple[str, ...]] = [()]
    looked = 0
    while stack:
        steps = stack.pop()
        try:
            with os.scandir(folder.joinpath(*steps)) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            yield steps or (".",)
            continue
        folders = []
        for entry in listed:
            looked += 1
            if looked > MOST_ENTRIES:
                return
            if entry.name.startswith((".", "__")):
                continue
            if entry.is_dir(follow_symlinks=False):
                folders.append((*steps, entry.name))
            else:
                yield (*steps, entry.name)
        stack.extend(reversed(folders))


def own_documents() -> list[Path]:
    """The documents of the project that this script lies in."""
    project = Path(__file__).resolve().parent.parent
    names = ("README.md", "docs", "CONTRIBUTING.md", "CHANGELOG.md")
    found = [project / name for name in names if (project / name).exists()]
    here = Path.cwd().resolve()
    return [
        path.relative_to(here) if path.is_relative_to(here) else path for path in found
    ]


# -- the command line ------------------------------------------------------------------


@attrs.frozen
class Options:
    """What the words after `--` say."""

    paths: tuple[str, ...]
    most: int
    together: int


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise ramet.UsageError(f"survey: {message}")


def read_options(words: Sequence[str]) -> Options:
    """Read the words after `--`.

    Raises:
        ramet.UsageError: they are not what this script takes.
    """
    parser = _Parser(add_help=False, allow_abbrev=False)
    parser.add_argument("paths", nargs="*")
    parser.add_argument("--most", type=int, default=6)
    parser.add_argument("--together", type=int, default=2)
    found = parser.parse_args(list(words))
    if found.most < 1 or found.together < 1:
        raise ramet.UsageError("survey: --most and --together are numbers from 1 on")
    return Options(tuple(found.paths), found.most, found.together)
