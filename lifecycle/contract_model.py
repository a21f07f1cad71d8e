"""What every model port must hold to, as tests that any adapter can run.

Lives here: the suite, and what a subclass gives it.  It needs no test framework: a
subclass in a test file inherits the tests and marks them for its runner.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager

import anyio
import anyio.lowlevel
import attrs

from ..actors.errors import ModelError
from ..actors.model import (
    Model,
    ModelCapabilities,
    ModelEvent,
    ModelRequest,
    ResponseEnded,
    TextDelta,
)
from ..actors.response import Assembled, ResponseAssembler
from ..mailbox.message import Usage, UserMessage

__all__ = ["ModelContract", "ModelSubject"]

_PATIENCE_S = 120.0


@attrs.frozen
class ModelSubject:
    """A model port under test.

    `failing` is a model and a request that its provider refuses.  `secrets` are texts
    that no error and no `repr` may hold.  `open_requests` says how many requests to the
    provider are open, where the adapter can tell.
    """

    model: Model
    failing: tuple[Model, ModelRequest]
    secrets: Sequence[str] = ()
    open_requests: Callable[[], int] = int


class ModelContract:
    """The obligations of a model port, each a test.

    A subclass gives `subject` and, where its model needs one, another `asked`:

        @pytest.mark.anyio
        class TestMyModel(ModelContract):
            def subject(self):
                return my_async_context_manager_that_gives_a_ModelSubject()

    The answers are not judged: any text and any usage will do.
    """

    def subject(self) -> AbstractAsyncContextManager[ModelSubject]:
        """Make what is tested; leaving the context manager closes it."""
        raise NotImplementedError("a subclass of ModelContract gives its subject()")

    def asked(self, text: str = "Say hello.") -> ModelRequest:
        """Return a small request that the model can answer in words."""
        message = UserMessage("m1", "prompt", "host", (text,))
        return ModelRequest("agent", "s1", 1, 1, "", (message,), (), {})

    async def test_a_response_is_whole_and_has_one_end(self) -> None:
        """The last event is the end, and the pieces agree with it."""
        async with self.subject() as subject:
            events = await self._events(subject)
        ends = [event for event in events if isinstance(event, ResponseEnded)]
        assert len(ends) == 1, f"a response has one end, this one has {len(ends)}"
        assert isinstance(events[-1], ResponseEnded), "the end is the last event"
        self._whole(events)

    async def test_streamed_pieces_put_together_are_the_text(self) -> None:
        """A port that streams gives pieces; no piece is lost or given twice."""
        async with self.subject() as subject:
            capabilities = subject.model.capabilities
            events = await self._events(subject)
        whole = self._whole(events)
        pieces = [event.text for event in events if isinstance(event, TextDelta)]
        if pieces or (capabilities.streaming and whole.text):
            assert "".join(pieces) == whole.text

    async def test_usage_is_counted_or_absent(self) -> None:
        """Tokens are whole numbers, or `None` where the provider does not say."""
        async with self.subject() as subject:
            usage = self._whole(await self._events(subject)).usage
        if usage is not None:
            assert isinstance(usage, Usage)
            for tokens in (usage.input_tokens, usage.output_tokens):
                assert tokens is None or (type(tokens) is int and tokens >= 0)

    async def test_capabilities_stay_the_same(self) -> None:
        """What a port can do does not change between two requests."""
        async with self.subject() as subject:
            before = subject.model.capabilities
            await self._events(subject)
            assert isinstance(before, ModelCapabilities)
            assert subject.model.capabilities == before

    async def test_a_request_that_is_never_entered_opens_nothing(self) -> None:
        """Making a request is free; only entering it asks the provider."""
        async with self.subject() as subject:
            subject.model.request(self.asked())
            assert subject.open_requests() == 0

    async def test_leaving_early_closes_the_request(self) -> None:
        """A request that is left early is closed, and the next one works."""
        async with self.subject() as subject:
            with anyio.fail_after(_PATIENCE_S):
                async with subject.model.request(self.asked()) as events:
                    await anext(events)
                assert subject.open_requests() == 0
            self._whole(await self._events(subject))

    async def test_a_cancelled_request_leaves_nothing_open(self) -> None:
        """Cancelling in the middle closes the request; the next one works."""
        async with self.subject() as subject:
            with anyio.fail_after(_PATIENCE_S):
                with anyio.CancelScope() as scope:
                    async with subject.model.request(self.asked()) as events:
                        await anext(events)
                        scope.cancel()
                        async for _ in events:
                            pass
                        await anyio.lowlevel.checkpoint()
                assert scope.cancelled_caught, "the cancellation came out"
                assert subject.open_requests() == 0
            self._whole(await self._events(subject))

    async def test_a_request_cancelled_before_its_first_event_is_closed(self) -> None:
        """A cancelled scope around the opening leaves nothing behind."""
        async with self.subject() as subject:
            with anyio.CancelScope() as scope:
                scope.cancel()
                async with subject.model.request(self.asked()) as events:
                    await anyio.lowlevel.checkpoint()
                    await anext(events)
            assert scope.cancelled_caught
            assert subject.open_requests() == 0
            self._whole(await self._events(subject))

    async def test_requests_run_at_the_same_time(self) -> None:
        """Two requests of one port do not disturb each other."""
        answers: list[Assembled] = []
        async with self.subject() as subject:

            async def one(text: str) -> None:
                answers.append(self._whole(await self._events(subject, text)))

            async with anyio.create_task_group() as group:
                group.start_soon(one, "Say hello.")
                group.start_soon(one, "Say goodbye.")
            assert subject.open_requests() == 0
        assert len(answers) == 2

    async def test_text_that_utf8_cannot_hold_is_no_failure(self) -> None:
        """An unpaired surrogate in a message is sent as something else (R-021)."""
        async with self.subject() as subject:
            self._whole(await self._events(subject, "Say hello to \ud800."))

    async def test_a_failure_is_a_model_error(self) -> None:
        """What the provider refuses comes out as a `ModelError`, whole and closed."""
        async with self.subject() as subject:
            model, asked = subject.failing
            failure = await self._failure(model, asked)
            assert isinstance(failure.code, str)
            assert str(failure), "a failure says what happened"
            assert subject.open_requests() == 0

    async def test_no_text_holds_a_secret(self) -> None:
        """Neither a failure, nor what led to it, nor a `repr` shows a key."""
        async with self.subject() as subject:
            model, asked = subject.failing
            texts = [repr(subject.model), repr(model)]
            failure: BaseException | None = await self._failure(model, asked)
            while failure is not None:
                texts += [str(failure), repr(failure), repr(vars(failure))]
                failure = failure.__cause__ or failure.__context__
            for secret in subject.secrets:
                assert not any(secret in text for text in texts), "a text holds a key"

    async def _events(
        self, subject: ModelSubject, text: str = "Say hello."
    ) -> list[ModelEvent]:
        with anyio.fail_after(_PATIENCE_S):
            async with subject.model.request(self.asked(text)) as events:
                return [event async for event in events]

    async def _failure(self, model: Model, asked: ModelRequest) -> ModelError:
        try:
            with anyio.fail_after(_PATIENCE_S):
                async with model.request(asked) as events:
                    async for _ in events:
                        pass
        except ModelError as failure:
            return failure
        raise AssertionError("the request was to fail")

    def _whole(self, events: Sequence[ModelEvent]) -> Assembled:
        assembler = ResponseAssembler()
        for event in events:
            assembler.add(event)
        whole = assembler.end()
        assert isinstance(whole, Assembled), f"the response is broken: {whole}"
        return whole
