"""Which rule an exception belongs to that ended a trace, which symbolic value it is about, and at which expression.

What a tracer refused it has noted itself, with rule and value. What remains was raised by Python, by torch's C code or
by a foreign library that met a symbolic value, or has nothing to do with tracing. Those are told apart by the
instruction that raised, by what it was given, and, last, by what the message says.
"""

import ast
import builtins
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import CodeType, FrameType, FunctionType, ModuleType, TracebackType
from typing import Any, Final

from fxengine.bytecode import opname_at, raising_at
from fxengine.errors import (
    DynamicBool,
    DynamicIteration,
    DynamicNumber,
    ForeignCall,
    RaisedWhileTracing,
    Refusal,
    Rule,
    kept_in,
    text_of,
)
from fxengine.graph import Graph
from fxengine.node import Node
from fxengine.proxy import Attribute, Proxy
from fxengine.source import OriginRecord, SourceFrame, frame_at, innermost, is_engine_file, is_user_file
from fxengine.syntax import (
    Span,
    comparison_links,
    iterated_operands,
    nodes_around,
    operands_of,
    span_of,
    truth_operands,
)
from fxengine.wrapping import find_proxy

_MENTIONS_PROXY: Final = re.compile(
    r"\b\w*Proxy\b|(?:'|not |type |got \(?)Attribute\b|__(?:cuda_)?array_(?:struct|interface)__"
)
"""A message that names what stands for a value, or an attribute that arrays have and that only it seems to have."""
_WANTS_NUMBER: Final = re.compile(
    r"cannot be interpreted as an integer|^(?:int|float|complex)\(\) .*argument must be|must be real number"
    r"|indices must be integers|real number is required|doesn't define __\w+__ method|unsupported format string"
    r"|unsupported operand type|can't multiply sequence|integer is required|must be an integer"
)
_BLAMES_ANOTHER: Final = re.compile(
    r"(?:, not |but got |got )\W?[a-zA-Z]|unsupported operand type|of type '"
    r"|^'[\w.]+' object is not (?:iterable|subscriptable|callable)"
)
"""A message that names the type it did not want; if that is not a proxy, the symbolic value was not the trouble."""
_OF_CALLS: Final = re.compile(r"^[\w.<>]+\(\) (?:takes|missing|got)|object is not callable")
"""What Python says of a call that does not fit a function, or of what is none."""
_MADE_AT_RUN_TIME: Final = 1 << 9
"""The flag of classes that a `class` statement made: CPython's `Py_TPFLAGS_HEAPTYPE`."""
_COMPARES: Final = frozenset({"COMPARE_OP", "CONTAINS_OP", "IS_OP"})
_LOOPS: Final = (ast.For, ast.AsyncFor, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_RAISES: Final = frozenset({"RAISE_VARARGS", "RERAISE"})


@dataclass(frozen=True, slots=True)
class Moment:
    """A frame of a traceback: the function that ran, with its variables, and the instruction it had come to."""

    frame: FrameType
    lasti: int

    @property
    def path(self) -> str:
        """The file of the code that ran."""
        return self.frame.f_code.co_filename

    @property
    def source(self) -> SourceFrame:
        """Where in the source this was."""
        return frame_at(self.frame.f_code, self.lasti)

    @property
    def opname(self) -> str:
        """The name of the instruction."""
        return opname_at(self.frame.f_code, self.lasti)

    @property
    def raises(self) -> bool:
        """Whether the instruction is a `raise`."""
        return self.opname in _RAISES

    def value_of(self, name: str) -> Any:
        """What a name meant there, or None."""
        for scope in (self.frame.f_locals, self.frame.f_globals, vars(builtins)):
            if name in scope:
                return scope[name]
        return None


@dataclass(frozen=True, slots=True)
class Verdict:
    """The rule that an exception belongs to, and the symbolic value that it is about, if one is known.

    It is certain if nothing but a symbolic value can have raised it; otherwise the exception may as well come from what
    the code did before.
    """

    rule: type[Rule]
    subject: Proxy | Node | None
    certain: bool = True


def node_of(subject: Proxy | Node | None) -> Node | None:
    """The node of a symbolic value; None if there is no value, or no node was made of it."""
    if isinstance(subject, Attribute):
        return subject._node
    return subject.node if isinstance(subject, Proxy) else subject


def moments_of(traceback: TracebackType | None) -> list[Moment]:
    """The frames of a traceback but for the engine's own, outermost first."""
    moments: list[Moment] = []
    while traceback is not None:
        frame, lasti = traceback.tb_frame, traceback.tb_lasti
        if not is_engine_file(frame.f_code.co_filename):
            moments.append(Moment(frame, lasti if traceback.tb_next is not None else raising_at(frame, lasti)))
        traceback = traceback.tb_next
    return moments


def classify(error: BaseException, refusals: Sequence[Refusal], graph: Graph) -> Verdict:
    """Tell which rule `error`, which ended the trace that made `graph`, belongs to."""
    for refusal in reversed(refusals):
        if refusal.error is error:
            return Verdict(refusal.rule, refusal.subject if isinstance(refusal.subject, Proxy) else None)
    moments = moments_of(error.__traceback__)
    if not moments or isinstance(error, RecursionError):
        return Verdict(RaisedWhileTracing, None, certain=False)
    raising = moments[-1]
    symbolic = symbolic_operand(raising, graph)
    message = text_of(error)
    mentioned = bool(_MENTIONS_PROXY.search(message)) or any(
        isinstance(arg, Proxy) for arg in kept_in(error, BaseException, "args")
    )
    if raising.raises:
        own = is_user_file(raising.path)
        rule: type[Rule] = RaisedWhileTracing if own or not mentioned else ForeignCall
        user = next((m for m in reversed(moments) if is_user_file(m.path)), raising)
        return Verdict(rule, None if own else symbolic_operand(user, graph), certain=rule is ForeignCall)
    if not mentioned and symbolic is None:
        return Verdict(RaisedWhileTracing, None, certain=False)
    possible = mentioned or not _BLAMES_ANOTHER.search(message)
    if possible and isinstance(error, TypeError) and _WANTS_NUMBER.search(message):
        return Verdict(DynamicNumber, symbolic)
    if mentioned or (possible and _calls_c_code(raising, error)):
        return Verdict(ForeignCall, symbolic, certain=mentioned or _is_given_symbols(raising, symbolic))
    return Verdict(RaisedWhileTracing, None, certain=False)


def operand_span(verdict: Verdict, moment: Moment) -> Span:
    """The span of the expression that a problem is about, within what the instruction's position says."""
    whole = moment.source.span
    around = nodes_around(moment.path, whole)
    if not around:
        return whole
    if verdict.rule is DynamicBool:
        candidates = truth_operands(around) or _asked_around(verdict, moment, around)
    elif verdict.rule is DynamicIteration:
        if moment.opname == "GET_ITER" and not isinstance(around[-1], _LOOPS):
            return whole  # From CPython 3.13 on this is the place of what the loop goes through.
        candidates = iterated_operands(around, moment.opname)
    elif isinstance(around[-1], ast.With | ast.AsyncWith):
        candidates = operands_of(around)
    elif isinstance(around[-1], ast.JoinedStr | ast.FormattedValue):
        # Before CPython 3.12 the places of what is in such a string may be wrong.
        candidates = [each for each in _operands(around, moment) if _stands_there(each, moment)]
    else:
        return whole
    chosen = next((c for c in candidates if _is_subject(c, verdict, moment)), None)
    if chosen is None:
        chosen = next(iter(candidates), None)
    if verdict.rule is DynamicBool:
        comparison = chosen or around[-1]
        if isinstance(comparison, ast.Compare) and len(comparison.ops) > 1:
            return _asked_link(comparison, verdict, moment) or whole
    return (span_of(chosen) if chosen is not None else None) or whole


def _asked_around(verdict: Verdict, moment: Moment, around: list[ast.AST]) -> list[ast.expr]:
    """The operand that is asked, where an instruction has the place of another one.

    CPython gives what several operands lead to the place of the one before it: of `a == 0 or b` the question for `b`
    that of `a == 0`.
    """
    if not isinstance(around[-1], ast.expr) or _is_subject(around[-1], verdict, moment):
        return []
    outer = (truth_operands(around[:end]) for end in range(len(around) - 1, 0, -1))
    return next(([each] for found in outer for each in found if _is_subject(each, verdict, moment)), [])


def symbolic_operand(moment: Moment, graph: Graph) -> Proxy | Node | None:
    """The last symbolic value among the operands of the expression that a frame had come to, or None."""
    return next(reversed(symbolic_operands(moment, graph)), None)


def symbolic_operands(moment: Moment, graph: Graph) -> list[Proxy | Node]:
    """The symbolic values among the operands of the expression that a frame had come to, in their order."""
    around = nodes_around(moment.path, moment.source.span)
    found = [_value_in(operand, moment, graph) for operand in _operands(around, moment)]
    return [value for value in found if value is not None]


def callee_of(moment: Moment) -> tuple[dict[str, Any], str] | None:
    """The global function that a frame's expression calls, by its namespace and name; None if it calls none."""
    around = nodes_around(moment.path, moment.source.span)
    function = around[-1].func if around and isinstance(around[-1], ast.Call) else None
    match function:
        case ast.Name(id=name) if name in moment.frame.f_globals and name not in moment.frame.f_locals:
            return moment.frame.f_globals, name
        case ast.Attribute(attr=name):
            owner = _resolve(function.value, moment)
            if isinstance(owner, ModuleType) and name in vars(owner):
                return vars(owner), name
            return None
        case _:
            return None


def _value_in(operand: ast.expr, moment: Moment, graph: Graph) -> Proxy | Node | None:
    """The symbolic value that an operand has or contains: of a variable, or computed on this spot."""
    value = find_proxy(_resolve(operand, moment))
    if value is not None:
        return value
    span = span_of(operand)
    for node in reversed(graph.nodes):
        place = _innermost(node)
        if span is not None and place is not None and place.path == moment.path and span.contains(place.span):
            return node
    names = [node for node in ast.walk(operand) if isinstance(node, ast.Name | ast.Attribute)]
    values = (_resolve(name, moment) for name in names)
    return next((value for value in values if isinstance(value, Proxy)), None)


def _is_given_symbols(moment: Moment, last: Proxy | Node | None) -> bool:
    """Whether an operand of a frame's expression is symbolic itself, and not just something that was computed for it.

    Args:
        moment: The frame, with the instruction.
        last: The last symbolic value that has to do with an operand.
    """
    operands = _operands(nodes_around(moment.path, moment.source.span), moment)
    if any(find_proxy(_resolve(operand, moment)) is not None for operand in operands):
        return True
    place = _innermost(last) if isinstance(last, Node) else None
    return place is not None and any(span_of(operand) == place.span for operand in operands)


def _operands(around: list[ast.AST], moment: Moment) -> list[ast.expr]:
    """The expressions whose values a frame's instruction works on; of a string's, the one that is being formatted."""
    string = around[-1] if around else None
    if isinstance(string, ast.JoinedStr):
        formatted = list(_formatted(string))
        offsets = _formats(moment.frame.f_code, span_of(string))
        # Code that runs at several ends, such as that of a `finally`, is there several times.
        if moment.lasti in offsets and formatted and len(offsets) % len(formatted) == 0:
            return [formatted[offsets.index(moment.lasti) % len(formatted)]]
    return operands_of(around)


def _formatted(string: ast.JoinedStr) -> Iterator[ast.expr]:
    """What is put into a string, in the order in which it is formatted: what a specification has in it is first."""
    for part in string.values:
        if isinstance(part, ast.FormattedValue):
            if isinstance(part.format_spec, ast.JoinedStr):
                yield from _formatted(part.format_spec)
            yield part.value


def _formats(code: CodeType, span: Span | None) -> list[int]:
    """The offsets of the instructions of a function that format something for the string at a span."""
    return [
        lasti
        for lasti in range(0, len(code.co_code), 2)
        if opname_at(code, lasti).startswith("FORMAT") and frame_at(code, lasti).span == span
    ]


def _stands_there(expression: ast.expr, moment: Moment) -> bool:
    """Whether the source at an expression's place is that expression."""
    span = span_of(expression)
    text = SourceFrame(moment.path, "", *span).text if span is not None else ""
    try:
        return ast.dump(ast.parse(text.strip(), mode="eval").body) == ast.dump(expression)
    except SyntaxError:
        return False


def _is_subject(expression: ast.expr, verdict: Verdict, moment: Moment) -> bool:
    """Whether an expression is the one that gave the value in question."""
    if isinstance(expression, ast.Name) and verdict.subject is not None:
        return moment.value_of(expression.id) is verdict.subject
    place = _place_of(verdict)
    span = span_of(expression)
    return place is not None and span is not None and place.path == moment.path and span.contains(place.span)


def _place_of(verdict: Verdict) -> SourceFrame | None:
    """Where the value in question was computed."""
    if isinstance(verdict.subject, Attribute) and verdict.subject._read_at is not None:
        return frame_at(*verdict.subject._read_at)
    node = node_of(verdict.subject)
    return _innermost(node) if node is not None else None


def _innermost(node: Node) -> SourceFrame | None:
    if type(node._mark) is tuple:
        return innermost(node._mark)
    record = node._origin
    if isinstance(record, OriginRecord):
        return record.innermost()
    return record.frames[-1] if record is not None and record.frames else None


def _asked_link(comparison: ast.Compare, verdict: Verdict, moment: Moment) -> Span | None:
    """The link of a chained comparison that gave the value in question."""
    links = comparison_links(comparison)
    record = node._origin if (node := node_of(verdict.subject)) is not None else None
    index = None
    if isinstance(record, OriginRecord) and record[1][:1] == (moment.frame.f_code,):
        made = record[1][1]
        offsets = _comparisons(moment.frame.f_code, span_of(comparison))
        index = next((index for index, lasti in enumerate(offsets) if lasti == made), None)
    if index is None or index >= len(links):
        return None
    first, last = (span_of(side) for side in links[index])
    return Span(*first[:2], *last[2:]) if first is not None and last is not None else None


def _comparisons(code: CodeType, span: Span | None) -> list[int]:
    """The offsets of the instructions that compare for an expression, in the order of its links."""
    return [
        lasti
        for lasti in range(0, len(code.co_code), 2)
        if opname_at(code, lasti) in _COMPARES and frame_at(code, lasti).span == span
    ]


def _calls_c_code(moment: Moment, error: BaseException) -> bool:
    """Whether the instruction calls something that is not written in Python, as far as names and the complaint tell."""
    complaint = text_of(error)
    around = nodes_around(moment.path, moment.source.span)
    if not around or not isinstance(around[-1], ast.Call):
        return False
    function = around[-1].func
    callee = _resolve(function, moment)
    if callee is None and isinstance(function, ast.Attribute):
        # What is written in Python says where it is called wrongly itself, and would be named with its class.
        is_of_call = _OF_CALLS.search(complaint) is not None or not isinstance(error, TypeError)
        return complaint.startswith(f"{function.attr}() ") or not is_of_call
    if isinstance(callee, FunctionType) and is_engine_file(callee.__code__.co_filename):
        # It stands in for a leaf function.
        callee = getattr(callee, "__wrapped__", callee)
    if isinstance(callee, type):
        return not callee.__flags__ & _MADE_AT_RUN_TIME
    return callee is not None and not hasattr(callee, "__code__") and not hasattr(callee, "__func__")


def _resolve(expression: ast.expr, moment: Moment) -> Any:
    """What a dotted name means there, or None; an attribute of a symbolic value is one, as it is while tracing."""
    match expression:
        case ast.Name():
            return moment.value_of(expression.id)
        case ast.Attribute():
            owner = _resolve(expression.value, moment)
            if isinstance(owner, Proxy):
                return Attribute(owner, expression.attr)
            # Other objects' attributes may be properties, which must not run again.
            return vars(owner).get(expression.attr) if isinstance(owner, ModuleType | type) else None
        case _:
            return None
