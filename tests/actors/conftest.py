"""What the tests of one agent at work share: one small model for the whole run."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ramet.actors.local_server import LocalServer
from ramet.actors.model_local import LocalModel
from ramet.mailbox.errors import UsageError


@pytest.fixture(scope="session")
def local_model() -> Iterator[LocalModel]:
    """The small model, with one thread; a machine without it fails the test."""
    try:
        model = LocalModel(threads=1, context_tokens=1024)
    except UsageError as error:
        pytest.fail(f"this test needs the small local model: {error}", pytrace=False)
    yield model
    server: LocalServer = model._server
    server.stop()
