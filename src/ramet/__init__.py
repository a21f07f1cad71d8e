"""ramet: an actor runtime for continuable sub-agents, on asyncio and on trio.

This is the public face; `ramet.open` is the way in.
"""

from .actors.agent import AgentSpec
from .actors.arguments import parse_arguments
from .actors.budget import Limits
from .actors.compaction import Compaction, Shortened
from .actors.contract import Choice, Contract, Reply, Returns, Schema, Text
from .actors.contributions import Contribution, Setup
from .actors.errors import (
    AgentBlockedError,
    AgentCancelledError,
    AgentFailedError,
    AgentStoppedError,
    ContextOverflowError,
    DeclarationError,
    ModelError,
    OutcomeError,
    RequestTimeoutError,
    UnsupportedSchemaError,
)
from .actors.model import (
    ArgumentsDelta,
    CallDone,
    CallStarted,
    Model,
    ModelCapabilities,
    ModelEvent,
    ModelRequest,
    ModelResponse,
    Refused,
    ResponseEnded,
    TextDelta,
    ToolSchema,
)
from .actors.model_function import FunctionModel
from .actors.model_local import LocalModel
from .actors.model_openai import OpenAIModel
from .actors.outcome import Acceptance, Outcome, TreeUsage
from .actors.policy import Policy
from .actors.tool import Tool, ToolCall
from .actors.tools_agents import delegation_setup
from .actors.tools_talk import control_setup, report_setup
from .lifecycle.errors import (
    GroupFailureError,
    SetupReleaseError,
    SetupRevokedError,
    TeardownError,
)
from .lifecycle.figures import AgentStatistics, Statistics
from .lifecycle.flow import Flow
from .lifecycle.flow_child import Assignment, FlowChild
from .lifecycle.group import Settled
from .lifecycle.handle import Agent
from .lifecycle.headless import HeadlessResult, run_headless
from .lifecycle.items import Item
from .lifecycle.observe import Gap, Observer
from .lifecycle.observe_structlog import StructlogObserver, log_to_structlog
from .lifecycle.opening import open as open  # noqa: A004
from .lifecycle.readers import Explanation, Listing, MessageStatus
from .lifecycle.runs import ReplayRefusedError
from .lifecycle.script_exit import ScriptExitedError
from .lifecycle.sending import Started
from .lifecycle.supervisor import Supervisor
from .mailbox.canonical import canonical_json
from .mailbox.errors import (
    ActivationClosingError,
    CorruptLogError,
    DepthExceededError,
    DrainingError,
    IllegalEventError,
    InboxFullError,
    InvalidArgumentsError,
    KeyConflictError,
    NotResidentError,
    NotResumableError,
    ParentUnavailableError,
    ParkedError,
    PersistenceUnavailableError,
    RametError,
    SelfWaitError,
    SendUnknownError,
    SessionHeldError,
    StoreInUseError,
    UnauthorizedError,
    UnknownMessageError,
    UnsupportedLogError,
    UsageError,
)
from .mailbox.ids import Ambient
from .mailbox.message import (
    AssistantMessage,
    Call,
    CallResult,
    Content,
    ToolMessage,
    Usage,
    UserMessage,
)
from .mailbox.samples import Spread
from .mailbox.store import Entry, Reader, Store
from .mailbox.store_memory import MemoryStore
from .mailbox.store_sqlite import SqliteReader, SqliteStore

__version__ = "0.1.0"

__all__ = [
    "Acceptance",
    "ActivationClosingError",
    "Agent",
    "AgentBlockedError",
    "AgentCancelledError",
    "AgentFailedError",
    "AgentSpec",
    "AgentStatistics",
    "AgentStoppedError",
    "Ambient",
    "ArgumentsDelta",
    "Assignment",
    "AssistantMessage",
    "Call",
    "CallDone",
    "CallResult",
    "CallStarted",
    "Choice",
    "Compaction",
    "Content",
    "ContextOverflowError",
    "Contract",
    "Contribution",
    "CorruptLogError",
    "DeclarationError",
    "DepthExceededError",
    "DrainingError",
    "Entry",
    "Explanation",
    "Flow",
    "FlowChild",
    "FunctionModel",
    "Gap",
    "GroupFailureError",
    "HeadlessResult",
    "IllegalEventError",
    "InboxFullError",
    "InvalidArgumentsError",
    "Item",
    "KeyConflictError",
    "Limits",
    "Listing",
    "LocalModel",
    "MemoryStore",
    "MessageStatus",
    "Model",
    "ModelCapabilities",
    "ModelError",
    "ModelEvent",
    "ModelRequest",
    "ModelResponse",
    "NotResidentError",
    "NotResumableError",
    "Observer",
    "OpenAIModel",
    "Outcome",
    "OutcomeError",
    "ParentUnavailableError",
    "ParkedError",
    "PersistenceUnavailableError",
    "Policy",
    "RametError",
    "Reader",
    "Refused",
    "ReplayRefusedError",
    "Reply",
    "RequestTimeoutError",
    "ResponseEnded",
    "Returns",
    "Schema",
    "ScriptExitedError",
    "SelfWaitError",
    "SendUnknownError",
    "SessionHeldError",
    "Settled",
    "Setup",
    "SetupReleaseError",
    "SetupRevokedError",
    "Shortened",
    "Spread",
    "SqliteReader",
    "SqliteStore",
    "Started",
    "Statistics",
    "Store",
    "StoreInUseError",
    "StructlogObserver",
    "Supervisor",
    "TeardownError",
    "Text",
    "TextDelta",
    "Tool",
    "ToolCall",
    "ToolMessage",
    "ToolSchema",
    "TreeUsage",
    "UnauthorizedError",
    "UnknownMessageError",
    "UnsupportedLogError",
    "UnsupportedSchemaError",
    "Usage",
    "UsageError",
    "UserMessage",
    "canonical_json",
    "control_setup",
    "delegation_setup",
    "log_to_structlog",
    "parse_arguments",
    "report_setup",
    "run_headless",
]
