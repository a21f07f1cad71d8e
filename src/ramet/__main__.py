"""`python -m ramet`: the command `ramet`."""

from .lifecycle.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
