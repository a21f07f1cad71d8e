"""The course of a run: loops without a bound, and functions that read names too late.

Lives here: the rules about when and how often agents are started, and about what keeps
a resumed run from finding its calls again.  Labels are in `script_labels.py`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .script_calls import STARTING, Script
from .script_finding import Finding, found_at
from .script_values import UNKNOWN

__all__ = ["changing_requests", "late_names", "unbounded_loops"]

_ORDERED = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_ENDLESS = ("itertools.count", "itertools.cycle", "itertools.repeat")

_CHANGING = frozenset(
    "time.time time.time_ns time.monotonic time.monotonic_ns time.perf_counter"
    " time.ctime time.strftime time.localtime time.gmtime datetime.datetime.now"
    " datetime.datetime.utcnow datetime.datetime.today datetime.date.today uuid.uuid1"
    " uuid.uuid4 random.random random.randint random.choice random.choices"
    " random.sample random.randrange random.uniform secrets.token_hex"
    " secrets.token_urlsafe secrets.choice os.getpid os.urandom tempfile.mkdtemp"
    " tempfile.mktemp".split()
)


# -- loops -----------------------------------------------------------------------------


def unbounded_loops(script: Script) -> Iterator[Finding]:
    """Loops that start agents, and that only an agent's answer ends, if anything."""
    for node in script.tree.nodes:
        if isinstance(node, ast.While):
            endless = _is_endless(script, node)
        elif isinstance(node, ast.For):
            endless = _gives_no_end(script, node.iter)
        else:
            continue
        if not endless or _counts(script, node):
            continue
        inside = [*node.body, *([node.test] if isinstance(node, ast.While) else [])]
        started = next((one for one in map(script.starts, inside) if one), None)
        if started is not None:
            text = (
                "this loop starts agents and has no bound: how often it goes round is"
                f" up to what they answer (line {started.lineno})"
            )
            remedy = "count: for attempt in range(5): ..., and say what follows it"
            yield found_at(node, "unbounded-loop", text, remedy)
    yield from _recursions(script)


def _is_endless(script: Script, node: ast.While) -> bool:
    """Whether a test asks nothing that a script would count by."""
    value = script.values.of(node.test)
    if value is not UNKNOWN:
        return bool(value)
    names = set()
    asks = False
    stack: list[ast.AST] = [node.test]
    while stack:
        one = stack.pop()
        if isinstance(one, ast.Await) and script.starts(one) is not None:
            asks = True
            continue
        stack.extend(ast.iter_child_nodes(one))
        if isinstance(one, ast.Compare):
            if not all(isinstance(op, (ast.Eq, ast.NotEq)) for op in one.ops):
                return False
        elif isinstance(one, ast.Name):
            names.add(one.id)
        elif isinstance(one, (ast.Call, ast.Attribute, ast.Subscript)):
            return False
    return asks or any(_is_answer(script, node, name) for name in names)


def _is_answer(script: Script, node: ast.While, name: str) -> bool:
    """Whether a name gets an agent's answer, or a verdict on one, in a loop."""
    for one in script.tree.below(node):
        targets: list[ast.expr] = []
        if isinstance(one, ast.Assign):
            targets = one.targets
        elif isinstance(one, (ast.AnnAssign, ast.NamedExpr)):
            targets = [one.target]
        named = [it for it in targets if isinstance(it, ast.Name) and it.id == name]
        if not named:
            continue
        value = getattr(one, "value", None)
        if isinstance(value, ast.Await) and script.starts(value) is not None:
            return True
        if isinstance(value, ast.Compare) or _is_bool(value):
            return True
    return False


def _is_bool(node: object) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, bool)


def _gives_no_end(script: Script, node: ast.expr) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = script.tree.origin(node.func)
    if name == "itertools.repeat":
        return len(node.args) == 1 and not node.keywords
    return name in _ENDLESS or (name == "builtins.iter" and len(node.args) == 2)


def _counts(script: Script, node: ast.While | ast.For) -> bool:
    """Whether a loop compares numbers, counts, or takes from something that ends."""
    if any(_ends_by_time(script, outer) for outer in script.tree.around(node)):
        return True
    stepped: set[str] = set()
    tested: set[str] = set()
    ends = False
    for one in script.tree.below(node):
        ops = one.ops if isinstance(one, ast.Compare) else []
        if any(isinstance(op, _ORDERED) for op in ops):
            return True
        if isinstance(one, ast.AugAssign) and isinstance(one.target, ast.Name):
            stepped.add(one.target.id)
        elif isinstance(one, ast.Call):
            origin = script.tree.origin(one.func)
            taken = isinstance(one.func, ast.Attribute) and one.func.attr in _TAKING
            ends = ends or taken or origin == "builtins.next"
        elif isinstance(one, ast.Name):
            # A person bounds a loop too.
            ends = ends or script.tree.origin(one) == "builtins.input"
        ends = ends or _ends_by_time(script, one)
        if isinstance(one, (ast.If, ast.While, ast.IfExp)):
            tested |= {it.id for it in ast.walk(one.test) if isinstance(it, ast.Name)}
    if ends:
        return True
    # A body that surely leaves after its first round goes round once.
    if isinstance(node.body[-1], (ast.Break, ast.Return, ast.Raise)):
        return not any(isinstance(one, ast.Continue) for one in ast.walk(node))
    return bool(stepped & tested)


def _ends_by_time(script: Script, node: ast.AST) -> bool:
    """Whether a block has a deadline."""
    if not isinstance(node, (ast.With, ast.AsyncWith)):
        return False
    entered = [it.context_expr for it in node.items]
    calls = [one.func for one in entered if isinstance(one, ast.Call)]
    names = [script.tree.origin(one) or "" for one in calls]
    return any(name.rpartition(".")[2] in _DEADLINES for name in names)


_DEADLINES = ("fail_after", "move_on_after", "fail_at", "move_on_at", "timeout")

_TAKING = frozenset("pop popleft popitem get_nowait receive get readline".split())


def _recursions(script: Script) -> Iterator[Finding]:
    """Functions that start agents and call themselves, with nothing that counts."""
    for node in script.tree.nodes:
        if not isinstance(node, ast.AsyncFunctionDef) or node not in script.starters:
            continue
        again = None
        counted = False
        arguments = node.args
        own = {
            one.arg
            for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
            if one not in script.flows
        }
        for one in ast.walk(node):
            if isinstance(one, ast.Call) and script.tree.defined(one.func) is node:
                again = again or one
            elif isinstance(one, ast.Compare):
                names = {it.id for it in ast.walk(one) if isinstance(it, ast.Name)}
                ordered = any(isinstance(op, _ORDERED) for op in one.ops)
                counted = counted or ordered or bool(names & own)
            elif isinstance(one, (ast.If, ast.IfExp, ast.While)):
                names = {it.id for it in ast.walk(one.test) if isinstance(it, ast.Name)}
                counted = counted or bool(names & own)
        each = _loops_over_own(node, own)
        if again is not None and not counted and not each:
            text = (
                f"{node.name} starts agents and calls itself, and nothing counts how"
                " deep"
            )
            remedy = "take a depth, stop at 0, and pass depth - 1 on"
            yield found_at(again, "unbounded-loop", text, remedy)


def _loops_over_own(node: ast.AsyncFunctionDef, own: set[str]) -> bool:
    """Whether it goes through what it was given, which ends as a tree does."""
    for one in ast.walk(node):
        if isinstance(one, (ast.For, ast.comprehension)):
            names = {it.id for it in ast.walk(one.iter) if isinstance(it, ast.Name)}
            if names & own:
                return True
    return False


# -- names that are read too late ------------------------------------------------------


def late_names(script: Script) -> Iterator[Finding]:
    """Functions made in a loop, for later, that read the variable of the loop."""
    for node in script.tree.nodes:
        if not isinstance(node, ast.Lambda) or script.starts(node.body) is None:
            continue
        own = {one.arg for one in ast.walk(node.args) if isinstance(one, ast.arg)}
        changing = _loop_names(script, node)
        for one in ast.walk(node.body):
            if isinstance(one, ast.Name) and one.id in changing and one.id not in own:
                text = (
                    f"every function that is made here reads {one.id!r} when it runs:"
                    " all get the last one"
                )
                remedy = f"bind it: lambda {one.id}={one.id}: ..."
                yield found_at(one, "late-binding", text, remedy)
                break


def _loop_names(script: Script, node: ast.Lambda) -> set[str]:
    """The variables of the loops around a function that is kept for later."""
    found: set[str] = set()
    inner: ast.AST = node
    for outer in script.tree.around(node):
        if isinstance(outer, _FUNCTIONS):
            break
        if isinstance(outer, ast.Await):
            # What is awaited in the round of the loop runs in that round.
            break
        if isinstance(outer, (ast.ListComp, ast.SetComp)) and inner is outer.elt:
            targets = [one.target for one in outer.generators]
            found |= {
                it.id
                for target in targets
                for it in ast.walk(target)
                if isinstance(it, ast.Name)
            }
        elif isinstance(outer, ast.For) and inner in outer.body and not _waits(outer):
            names = ast.walk(outer.target)
            found |= {it.id for it in names if isinstance(it, ast.Name)}
        inner = outer
    return found


def _waits(node: ast.For) -> bool:
    """Whether a round of a loop waits, so that what it made may have run in it."""
    return any(isinstance(one, (ast.Await, ast.AsyncWith)) for one in ast.walk(node))


# -- what another run would ask --------------------------------------------------------


def changing_requests(script: Script) -> Iterator[Finding]:
    """Requests that hold the time or chance: a resumed run does not find them again."""
    seeded = any(script.tree.origin(one) == "random.seed" for one in script.tree.nodes)
    for call in script.of(*STARTING):
        for option in ("prompt", "label", "key"):
            node = call.options.get(option)
            source = None if node is None else _changing(script, node)
            if node is None or source is None:
                continue
            if seeded and source.startswith("random."):
                continue
            text = (
                f"the {option} holds {source}, another one in each run: a resumed run"
                " does not find this call again, and asks anew"
            )
            remedy = "give it by --input, or have a call before give it"
            yield found_at(node, "changing-request", text, remedy)


def _changing(script: Script, node: ast.expr) -> str | None:
    """The function by which an expression changes from run to run."""
    found = [node]
    for one in ast.walk(node):
        if isinstance(one, ast.Name):
            bound = script.tree.sole(one)
            if bound is not None and bound.how == "value" and bound.value is not None:
                found.append(bound.value)
    for whole in found:
        for one in ast.walk(whole):
            if isinstance(one, ast.Await):
                break
            if isinstance(one, ast.Call):
                name = script.tree.origin(one.func)
                if name in _CHANGING:
                    return f"{name}()"
    return None
