"""How an agent's request is put to a small local model, and how its answer is read.

Lives here: which tool a step offers, the grammar of that step's answer, the transcript
as plain chat texts, and the way back from the answer's text to a call.  A call is
written as one compact JSON object, `{"tool":NAME,"arguments":{...}}`, also where the
transcript tells of earlier ones; an answer in words is `{"answer":TEXT}` where both are
possible.

Two rules for tools:

* `each`, for models too small to choose.  A step offers one tool: the first, in the
  order of the request, that this turn has not called with success; one that failed is
  offered once more.  A call without any choice (each argument has one possible value)
  that was answered before is not asked for again.  When nothing is left to offer, the
  model ends its turn with a few plain words.
* `any`: the model chooses among all tools, and may answer in words instead.

Worked examples help a small model more than any description.  Instructions may hold
them: a line `Example request:`, the text of a request, a line `Example answer:` and the
answer, as often as wanted, after all other instructions.  They become earlier exchanges
of the chat.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, TypeAlias

from ..mailbox.message import (
    AssistantMessage,
    Call,
    ToolMessage,
    UserMessage,
    record,
)
from .chat_messages import Substitutions, result_text
from .errors import ModelError
from .grammar import GrammarError, TextRule, schema_expression, text_rules
from .grammar_pattern import Expression, literal
from .model import Message, ModelRequest, ToolSchema

__all__ = ["Form", "LocalCalls", "form_of", "local_messages", "read_answer"]

LocalCalls: TypeAlias = Literal["each", "any"]

_TRIES = 2
_SPARE_TOKENS = 60
_OPENING = frozenset(("prompt", "tell", "followup", "nudge"))
_MARKER = re.compile(r"<\|(?=[A-Za-z_]{1,40}\|>)")
_HEAD = re.compile(r'\s*\{\s*"tool"\s*:\s*')
_MIDDLE = re.compile(r'\s*,\s*"arguments"\s*:\s*')
_REQUEST_LINE = "Example request:"
_ANSWER_LINE = "Example answer:"


@record
class Form:
    """What the answer of one step looks like.

    `grammar` is `None` for free text; `object` says that the answer is a JSON object to
    be read with `read_answer`; `max_tokens` is enough for all that the grammar allows.
    """

    grammar: str | None
    object: bool
    max_tokens: int


def form_of(
    request: ModelRequest, calls: LocalCalls, rule: TextRule, closing_characters: int
) -> Form | None:
    """Return the form of the answer to this request; `None` means free text.

    Raises:
        ModelError: the parameters of a tool cannot be put into a grammar.
    """
    if not request.tools:
        return None
    if calls == "any":
        answer = Expression(
            rf'"{{\"answer\":\"" char{{1,{rule.characters}}} "\"}}"',
            rule.characters + 16,
        )
        forms = [*(_call_form(tool, rule) for tool in request.tools), answer]
    else:
        offered = _offered(request)
        if offered is None:
            most = max(2, closing_characters)
            closing = rf"root ::= [A-Z] [A-Za-z0-9 ,']{{1,{most - 1}}} " + r'"."'
            return Form(closing, False, most + _SPARE_TOKENS)
        forms = [_call_form(offered, rule)]
    root = "root ::= " + " | ".join(one.text for one in forms)
    longest = max(one.longest for one in forms)
    return Form(f"{root}\n{text_rules(rule)}\n", True, longest + _SPARE_TOKENS)


def _call_form(tool: ToolSchema, rule: TextRule) -> Expression:
    try:
        arguments = schema_expression(tool.parameters, rule)
    except GrammarError as error:
        raise ModelError(
            f"the local model cannot hold calls of {tool.name!r} to their schema:"
            f" {error}"
        ) from None
    head = f'{{"tool":{json.dumps(tool.name)},"arguments":'
    text = f'{literal(head)} {arguments.text} "}}"'
    return Expression(text, len(head) + arguments.longest + 1)


def _offered(request: ModelRequest) -> ToolSchema | None:
    """Return the tool that this step offers, under the rule `each`."""
    this_turn = _batches(request.messages, this_turn=True)
    ever = _batches(request.messages, this_turn=False)
    for tool in request.tools:
        tries = [
            result.error is None
            for batch in this_turn
            for call, result in zip(batch.calls, batch.results, strict=True)
            if call.name == tool.name
        ]
        if True in tries or len(tries) >= _TRIES:
            continue
        if _has_no_choice(tool.parameters) and any(
            call.name == tool.name and result.error is None
            for batch in ever
            for call, result in zip(batch.calls, batch.results, strict=True)
        ):
            continue
        return tool
    return None


def _batches(messages: Sequence[Message], *, this_turn: bool) -> list[ToolMessage]:
    found = []
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            found.append(message)
        elif this_turn and _begins_turn(message):
            break
    return found


def _begins_turn(message: Message) -> bool:
    if isinstance(message, UserMessage):
        return message.source in _OPENING
    return isinstance(message, AssistantMessage) and not message.calls


def _has_no_choice(parameters: Mapping[str, Any]) -> bool:
    properties = parameters.get("properties") or {}
    if not properties or set(properties) != set(parameters.get("required", ())):
        return False
    return all(
        isinstance(node, Mapping)
        and ("const" in node or len(node.get("enum") or ()) == 1)
        for node in properties.values()
    )


def read_answer(text: str) -> Call | str:
    """Read the object that a model wrote: a call with its raw arguments, or a text.

    Raises:
        ModelError: the text is neither.
    """
    decoder = json.JSONDecoder()
    try:
        head = _HEAD.match(text)
        if head is None:
            answer = decoder.decode(text)["answer"]
            if isinstance(answer, str):
                return answer
            raise ValueError("the answer is not text")
        name, end = decoder.raw_decode(text, head.end())
        middle = _MIDDLE.match(text, end)
        if middle is None or not isinstance(name, str):
            raise ValueError("no arguments")
        _, end = decoder.raw_decode(text, middle.end())
        if text[end:].strip() != "}":
            raise ValueError("no end")
        return Call(name, text[middle.end() : end])
    except (KeyError, TypeError, ValueError, RecursionError):
        raise ModelError("the local model wrote neither a call nor an answer") from None


def local_messages(
    request: ModelRequest, calls: LocalCalls, substitutions: Substitutions
) -> list[dict[str, str]]:
    """Write instructions, examples and transcript as plain chat messages.

    Each block of a user message and each result is a message of its own.  What looks
    like a control word of a chat template is broken up, and counted as a substitution.
    """
    instructions, examples = _split_examples(request.instructions)
    if calls == "any" and request.tools:
        instructions = f"{instructions}\n\n{_tool_list(request.tools)}".strip()
    written = [("system", instructions)] if instructions else []
    written += examples
    for message in request.messages:
        if isinstance(message, UserMessage):
            written += [("user", block) for block in message.blocks if block]
        elif isinstance(message, ToolMessage):
            written += [
                ("user", _result(call, result_text(result), calls))
                for call, result in zip(message.calls, message.results, strict=True)
            ]
        else:
            written += [("assistant", text) for text in _said(message, calls)]
    return [
        {"role": role, "content": _harmless(text, substitutions)}
        for role, text in written
    ]


def _result(call: Call, text: str, calls: LocalCalls) -> str:
    return f"Result of {call.name}:\n\n{text}" if calls == "any" else text


def _said(message: AssistantMessage, calls: LocalCalls) -> list[str]:
    said = []
    if message.text:
        plain = calls == "each"
        said = [message.text if plain else _compact({"answer": message.text})]
    for call in message.calls:
        said.append(f'{{"tool":{json.dumps(call.name)},"arguments":{call.arguments}}}')
    return said


def _compact(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def _tool_list(tools: Sequence[ToolSchema]) -> str:
    lines = [
        'You answer with one JSON object: {"tool":NAME,"arguments":{...}} calls a tool,'
        ' and {"answer":TEXT} ends your turn.',
        "Tools:",
    ]
    for tool in tools:
        names = ", ".join(tool.parameters.get("properties") or {})
        lines.append(f"- {tool.name}({names}): {tool.description}")
    return "\n".join(lines)


def _split_examples(instructions: str) -> tuple[str, list[tuple[str, str]]]:
    before, *parts = re.split(rf"(?m)^{_REQUEST_LINE}[ \t]*\n", instructions)
    examples = []
    for part in parts:
        asked, *answers = re.split(rf"(?m)^{_ANSWER_LINE}[ \t]*\n", part)
        if len(answers) != 1:
            return instructions, []
        examples += [("user", asked.strip()), ("assistant", answers[0].strip())]
    return before.strip(), examples


def _harmless(text: str, substitutions: Substitutions) -> str:
    text, broken = _MARKER.subn("< |", text)
    substitutions.count += broken
    return substitutions.sendable(text)
