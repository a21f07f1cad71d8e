"""A run is gone on with in the folder where it began."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = """
import os
from pathlib import Path
import ramet

async def mind(request):
    reply = ramet.Call("reply", '{"value": "v"}')
    return ramet.ModelResponse("", (reply,), "tool_calls")

model = ramet.FunctionModel(mind)

async def main(flow):
    value = await flow.agent("one", label="one")
    if os.environ.get("END_IT"):
        os.kill(os.getpid(), 9)
    return [value, Path(flow.args[0]).read_text()]
"""


def ramet(
    folder: Path, *words: str, end_it: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run the command in a folder."""
    environment = {name: it for name, it in os.environ.items() if name != "END_IT"}
    if end_it:
        environment["END_IT"] = "1"
    return subprocess.run(
        [sys.executable, "-m", "ramet", *words],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.parametrize("how", ["resume", "run"])
def test_relative_names_are_meant_from_where_the_run_began(
    how: str, tmp_path: Path
) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    here.mkdir()
    elsewhere.mkdir()
    (here / "job.py").write_text(SCRIPT)
    (here / "f.txt").write_text("mine")
    (elsewhere / "f.txt").write_text("another")
    store = ["--store", "../s.db"]
    cut = ramet(here, "run", "job.py", *store, "--", "f.txt", end_it=True)
    assert cut.returncode == -9
    words = ["resume"]
    if how == "run":
        listed = json.loads(ramet(here, "ps", *store, "--json").stdout)
        root = json.dumps(listed).partition('"id": "')[2].partition('"')[0]
        words = ["run", "../here/job.py", "--resume", root]
    done = ramet(elsewhere, *words, *store)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == ["v", "mine"]
    assert f"going on in {here}" in done.stderr


def test_a_folder_that_is_gone_is_said_so(tmp_path: Path) -> None:
    here = tmp_path / "here"
    here.mkdir()
    script = tmp_path / "job.py"
    script.write_text(SCRIPT)
    store = ["--store", str(tmp_path / "s.db")]
    cut = ramet(here, "run", str(script), *store, "--", "f.txt", end_it=True)
    assert cut.returncode == -9
    here.rmdir()
    done = ramet(tmp_path, "resume", *store)
    assert done.returncode == 1
    assert "relative names are meant from there" in done.stderr
