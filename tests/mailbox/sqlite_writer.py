"""A process that writes a store until it is killed; tests of `SqliteStore` start it.

    python sqlite_writer.py FILE free     write one batch after the other
    python sqlite_writer.py FILE step     write one batch for each line of input

A batch adds two events to the log of `p` and one to that of `c`.  The number of each
batch is printed once it is acknowledged; the seventh holds 5 MB.
"""

from __future__ import annotations

import sys

from ramet.lifecycle.bookkeeper import BookKeeper, header
from ramet.mailbox.events import Accepted, Told
from ramet.mailbox.store_sqlite import SqliteStore

LARGE = 5 << 20


def main(path: str, pace: str) -> None:
    store = SqliteStore(path)
    store.open()
    keeper = BookKeeper(store)
    keeper.write(("p", header("p")), ("c", header("c", "p")), activation="a")
    print(0, flush=True)
    number = 0
    while pace == "free" or sys.stdin.readline():
        number += 1
        text = "x" * LARGE if number == 7 else "a small text"
        accepted = Accepted(
            f"m{number}", "report", "c", (text,), "quiet", number, key=f"k{number}"
        )
        keeper.write(("p", Told(number)), ("c", Told(number)), ("p", accepted))
        print(number, flush=True)
    store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
