"""`python -m ramet`: the command `ramet`."""

from .lifecycle.cli import entry

if __name__ == "__main__":
    entry()
