"""The host port asks for what the runtime gives, and for nothing more."""

from __future__ import annotations

import inspect

from ramet.actors.host import Host
from ramet.lifecycle.bureau import Bureau


def methods(cls: type) -> dict[str, inspect.Signature]:
    return {
        name: inspect.signature(value)
        for name, value in vars(cls).items()
        if not name.startswith("_") and inspect.isfunction(value)
    }


def test_the_runtime_gives_every_method_of_the_port_with_its_parameters() -> None:
    given = methods(Bureau)
    for name, signature in methods(Host).items():
        assert list(given[name].parameters) == list(signature.parameters)
        for parameter in signature.parameters.values():
            assert given[name].parameters[parameter.name].kind is parameter.kind


def test_every_method_of_the_port_may_wait_and_acts_for_the_agent_of_a_call() -> None:
    for name, signature in methods(Host).items():
        assert inspect.iscoroutinefunction(getattr(Host, name))
        assert list(signature.parameters)[:2] == ["self", "call"]
