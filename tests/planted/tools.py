"""Faults of tools: what an agent is offered, what runs, and what a call comes to.

Lives here: wrong rules of tools and scopes, of calls and of responses.
"""

from __future__ import annotations

import json

from ramet.actors import (
    arguments,
    chat_messages,
    scope,
    tool,
    tool_run,
    tools_talk,
    turn,
)
from ramet.actors.response import ResponseAssembler
from ramet.actors.scope import Scope
from ramet.lifecycle import bureau, calls, driver
from ramet.lifecycle.bureau import Bureau
from ramet.lifecycle.calls import Calls
from ramet.lifecycle.driver import Driver
from ramet.mailbox import message
from ramet.mailbox.message import AssistantMessage
from tests.planted.fault import Fault, edit, fault, put

__all__ = ["FAULTS"]

FAULTS: tuple[Fault, ...] = (
    fault(
        "the report tool takes a recipient",
        "R-011 R-024 R-242",
        edit(
            tools_talk,
            "_report",
            "output: str, call: ToolCall)",
            'output: str, call: ToolCall, recipient: str = "")',
        ),
    ),
    fault(
        "the report tool is described otherwise",
        "R-011",
        edit(tools_talk, "_report", "it does not end your\n", "it ends your\n"),
    ),
    fault(
        "control tools are described otherwise",
        "R-075 R-078 R-242",
        edit(
            tools_talk,
            "_control",
            "It becomes a later turn",
            "It is answered at once by",
            "Its queue is kept.",
            "Its queue is lost.",
        ),
    ),
    fault(
        "every agent is offered report",
        "R-011 R-014 R-242",
        edit(
            tools_talk,
            "report_setup",
            'if setup.kind != "continuable":',
            "if False:",
        ),
    ),
    fault(
        "report runs without its contribution",
        "R-012",
        put(scope, "_report", tools_talk._report),
        edit(
            Scope,
            "find",
            "    known = ",
            "    if name == 'report':\n        return _report(None)\n    known = ",
        ),
    ),
    fault(
        "an unknown tool is withheld",
        "R-012 R-081",
        edit(Scope, "find", '"UNKNOWN_TOOL"', '"TOOL_WITHHELD"'),
    ),
    fault(
        "a withheld tool is unknown",
        "R-014 R-081",
        edit(
            Scope,
            "find",
            "if tool is not None or name in self._installation.names:",
            "if tool is not None:",
        ),
    ),
    fault(
        "the filter of a spec reaches report",
        "R-013",
        edit(Scope, "_permits", "name in RUNTIME_TOOLS or ", ""),
    ),
    fault(
        "what the filter of a spec leaves out may run",
        "R-013 R-081",
        edit(
            Scope,
            "find",
            "if tool is not None and self._permits(name):",
            "if tool is not None:",
        ),
    ),
    fault(
        "arguments that do not fit are taken",
        "R-015 R-208",
        edit(tool, "read_call", "return tool.convert(arguments)", "return arguments"),
    ),
    fault(
        "a repeated key of arguments is taken",
        "R-208",
        put(arguments, "_DECODER", json.JSONDecoder()),
    ),
    fault(
        "wrong arguments end the turn",
        "R-015",
        edit(
            driver._Turn,
            "_landed",
            "    if calls.over is not None:\n",
            "    if any(getattr(r, 'error', 0) == 'INVALID_ARGS' for m in "
            "self._session.transcript[-1:] for r in getattr(m, 'results', ())):\n"
            "        return COMPLETED\n    if calls.over is not None:\n",
        ),
    ),
    fault(
        "a report ends the turn",
        "R-017",
        edit(
            driver._Turn,
            "_landed",
            "    if calls.over is not None:\n",
            "    if any(c.name == 'report' for m in self._session.transcript[-1:] "
            "for c in getattr(m, 'calls', ())):\n"
            "        return COMPLETED\n    if calls.over is not None:\n",
        ),
    ),
    fault(
        "the result of report is the bare id",
        "R-016",
        edit(
            tools_talk,
            "_report",
            'return {"message_id": await host.report(call, output)}',
            "return await host.report(call, output)",
        ),
    ),
    fault(
        "the result of send_message is the bare id",
        "R-076",
        edit(
            tools_talk,
            "_control",
            'return {"message_id": await host.send_message(call, agent_id, message)}',
            "return await host.send_message(call, agent_id, message)",
        ),
    ),
    fault(
        "report takes a blank output",
        "R-022",
        edit(Bureau, "report", "if not output or output.isspace():", "if False:"),
        edit(
            message,
            "to_blocks",
            "if block and not block.isspace():",
            "if True:",
        ),
    ),
    fault(
        "what an agent says at the end of a turn is reported",
        "R-018",
        edit(
            Driver,
            "run",
            "        activation.scope = None\n",
            "        activation.scope = None\n"
            "        said = [m.text for m in activation.session.transcript[-1:] "
            "if getattr(m, 'text', '')]\n"
            "        if said and activation.parent is not None "
            "and not activation.parent.gone:\n"
            "            forest.accept(activation.parent, 'report', activation.id, "
            "tuple(said), 'quiet')\n",
        ),
    ),
    fault(
        "a tool's key is the call id of the provider",
        "R-062 R-065",
        edit(
            Calls,
            "_run",
            "key=call_key(activation.id, session.turn, session.step, place)",
            "key=call.call_id",
        ),
    ),
    fault(
        "a tool's key does not say its place",
        "R-062 R-065",
        edit(tool, "call_key", "{place}", ""),
    ),
    fault(
        "a report that came back as an error is sent again",
        "R-063",
        edit(Bureau, "_spoiled", "return sent.message_id", "return None"),
    ),
    fault(
        "a report of an earlier turn is not sent again",
        "R-063",
        edit(Bureau, "_spoiled", "if s.turn == session.turn", "if True"),
    ),
    fault(
        "a report is never sent with the same output again",
        "R-017",
        edit(
            Bureau,
            "_spoiled",
            "and landed.results[sent.place].error:",
            "and True:",
        ),
    ),
    fault(
        "built-in tools act without a calling agent",
        "R-080",
        edit(
            bureau,
            "_caller",
            "if type(agent) is not Agent:",
            "if False:",
        ),
    ),
    fault(
        "a model interrupts what is absent by its id alone",
        "R-142 R-078",
        edit(
            Bureau, "interrupt_agent", "        if line is None:", "        if False:"
        ),
    ),
    fault(
        "an agent lists everything below it as its children",
        "R-079",
        edit(Bureau, "list_agents", 'if scope == "children":', "if False:"),
    ),
    fault(
        "no agents are listed as no line",
        "R-079",
        edit(
            tools_talk,
            "_control",
            'or "There are no agents."',
            'or ""',
        ),
    ),
    fault(
        "a tool that is offered may not run",
        "R-081",
        edit(
            Scope,
            "find",
            "    tool = self._bound.tools.get(name)\n",
            "    tool = None\n",
        ),
    ),
    fault(
        "a tool that raises ends the turn",
        "R-207",
        edit(
            tool_run,
            "run_tool",
            "    except (Exception, SystemExit) as error:\n"
            "        return failure_result",
            "    except (Exception, SystemExit) as error:\n"
            "        raise GeneratorExit\n        return failure_result",
        ),
    ),
    fault(
        "a SystemExit of a tool ends the process",
        "R-207",
        edit(
            tool_run,
            "run_tool",
            "    except (Exception, SystemExit) as error:",
            "    except Exception as error:",
        ),
        edit(
            calls,
            "passes_through",
            "(cancelled, KeyboardInterrupt)",
            "(cancelled, KeyboardInterrupt, SystemExit)",
        ),
    ),
    fault(
        "whole calls of a response that was cut do not run",
        "R-210",
        edit(
            turn,
            "after_response",
            "if response.calls:",
            'if response.calls and response.stop not in ("length", "incomplete"):',
        ),
    ),
    fault(
        "half a call of a response that was cut runs",
        "R-210",
        edit(
            ResponseAssembler,
            "_put_together",
            " for call in ordered if call.arguments is not None",
            " for call in ordered",
        ),
    ),
    fault(
        "what was streamed is not kept",
        "R-157",
        edit(
            ResponseAssembler,
            "partial",
            'return "" if self._text is None else "".join(self._text)',
            'return ""',
        ),
    ),
    fault(
        "an adapter sends empty assistant messages",
        "R-209",
        edit(
            chat_messages,
            "chat_messages",
            "if message.text or message.calls:",
            "if True:",
        ),
    ),
    fault(
        "an adapter puts the blocks of a message together",
        "R-020",
        edit(
            chat_messages,
            "_user",
            'if len(texts) == 1:\n        return {"role": "user", "content": texts[0]}',
            'if texts:\n        return {"role": "user", "content": "\\n".join(texts)}',
        ),
    ),
    fault(
        "what cannot be sent is left out and not counted",
        "R-021",
        put(
            chat_messages.Substitutions,
            "sendable",
            lambda self, text: text.encode("utf-8", "ignore").decode(),
        ),
    ),
    fault(
        "a blocking tool holds the end of its agent up",
        "R-115 R-117 R-213",
        edit(tool_run, "run_tool", "abandon_on_cancel=True", "abandon_on_cancel=False"),
    ),
    fault(
        "a request holds what the log does not",
        "R-212",
        edit(
            driver._Turn,
            "_request",
            "tuple(session.transcript)",
            "tuple(session.transcript[-1:])",
        ),
    ),
    fault(
        "what a failed request streamed is kept",
        "R-211",
        edit(
            driver._Turn,
            "_request_failed",
            "    self._assembler = None\n",
            "    kept = self._assembler.partial() if self._assembler else ''\n"
            "    self._assembler = None\n"
            "    if kept:\n"
            "        self._session.transcript.append(AssistantMessage(kept))\n",
        ),
        put(driver, "AssistantMessage", AssistantMessage),
    ),
)
