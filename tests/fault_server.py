"""A warm process that runs pytest in forks of itself, for `tests/faults.py`.

Lives here: the loop that reads what to run and says how it ended.  What every run needs
is imported once, and no test is, so that a fault is planted before the tests see the
runtime.  It has one thread, so that forking is safe.
"""

from __future__ import annotations

import json
import os
import sys
import traceback

__all__ = ["main"]


def main() -> None:
    """Serve until standard input ends: a JSON list of arguments a line, one answer."""
    import hypothesis
    import pytest
    import trio

    import ramet.testing
    import tests.planted.table

    warm = (hypothesis, trio, ramet.testing, tests.planted.table)
    assert all(warm)
    for line in sys.stdin:
        options, shown = json.loads(line)
        child = os.fork()
        if child == 0:
            file = os.open(shown, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(file, 1)
            os.dup2(file, 2)
            status = 99
            try:
                status = int(pytest.main(options))
            except BaseException:
                traceback.print_exc()
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
                os._exit(status)
        _, ended = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(ended), flush=True)


if __name__ == "__main__":
    main()
