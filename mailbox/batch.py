"""What a store must check of a batch before it writes any of it.

Lives here: the rules that are the same for every store, so that all refuse the same
batches with the same words.  It sees a batch and what a store says that it holds, and
never a store.
"""

from __future__ import annotations

from .codec import content_digest
from .errors import KeyConflictError, SessionHeldError, UsageError
from .events import Accepted, Created
from .message import record
from .store import Batch, KeyRow

__all__ = ["Additions", "additions", "check_claim", "key_conflict"]


@record
class Additions:
    """What a batch adds to the index besides its events.

    `created` are the headers of new sessions, by session; `parents` the sessions that
    must be stored already; `places` the session and the `seq` at which
    each message was accepted; `keys` what
    each (sender, key) names.
    """

    created: dict[str, Created]
    parents: set[str]
    places: dict[str, tuple[str, int]]
    keys: dict[tuple[str, str], KeyRow]


def additions(batch: Batch) -> Additions:
    """Check that a batch agrees with itself, and give what it adds to the index.

    Raises:
        UsageError: it does not.
        KeyConflictError: one key of a sender is in it twice.
    """
    sequences = dict(batch.expected)
    found = Additions({}, set(), {}, {})
    places = found.places
    for entry in batch.entries:
        session, seq, event = entry.session, entry.seq, entry.event
        if sequences.get(session) != seq:
            raise UsageError(
                f"event {seq} of session {session} is out of sequence in its batch"
            )
        sequences[session] = seq + 1
        if (seq == 0) is not (type(event) is Created):
            raise UsageError(f"the log of {session} must begin with its only header")
        if type(event) is Accepted:
            message = event.id
            if message in places:
                raise UsageError(f"message {message} is accepted twice")
            places[message] = session, seq
            if event.key is not None:
                _add_key(found, session, event, event.key)
        elif type(event) is Created:
            _add_session(found, session, event)
    for session, bookmark in batch.bookmarks.items():
        if sequences.get(session) != bookmark.seq:
            raise UsageError(f"the bookmark of session {session} is of another place")
    if batch.summaries.keys() != batch.expected.keys():
        raise UsageError(
            "a batch must have one summary of each session that it touches"
        )
    for session, seq in sequences.items():
        if seq == 0:
            raise UsageError(f"the batch touches session {session}, which has no log")
    return found


def check_claim(
    batch: Batch, session: str, seq: int, holder: str | None, epoch: int
) -> None:
    """Check what a store holds of a session against what a batch expects.

    `seq` is how many events are stored, 0 if the session is not.

    Raises:
        SessionHeldError: another has written or claimed it.
    """
    expected = batch.expected[session]
    if seq != expected:
        raise SessionHeldError(
            f"session {session} has {seq} events and {expected} were expected:"
            " another has written it"
        )
    if seq and (holder != batch.holder or epoch != batch.epochs.get(session)):
        raise SessionHeldError(
            f"session {session} is not held by {batch.holder} in epoch"
            f" {batch.epochs.get(session)}, but by {holder or 'nobody'} in {epoch}"
        )


def key_conflict(sender: str, key: str) -> KeyConflictError:
    """The error of a key that is taken."""
    return KeyConflictError(f"sender {sender} has used the key {key!r} before")


def _add_key(found: Additions, session: str, event: Accepted, name: str) -> None:
    key = event.sender, name
    if key in found.keys:
        raise key_conflict(*key)
    digest = event.digest
    if digest is None:
        digest = content_digest(event.source, event.content)
    found.keys[key] = KeyRow(event.id, session, event.source, digest)


def _add_session(found: Additions, session: str, event: Created) -> None:
    if event.session != session:
        raise UsageError(f"the header of session {session} is of {event.session}")
    found.created[session] = event
    if event.parent is not None and event.parent not in found.created:
        found.parents.add(event.parent)
    elif event.parent == session:
        raise UsageError(f"session {session} cannot be its own parent")
