"""One run of a tracer that goes on where it would have ended.

For the length of a run two things are replaced on the tracer that was given: what it does when it refuses a symbolic
value something, and what it does at a call of a module. The first returns an answer where there is one, the second
turns a call that raised into a node that stands for it. Whatever the user's own code would catch is raised really.
"""

import operator
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any, Final, TypeAlias

from torch import nn
from torch.utils import _pytree as pytree

from fxengine.classification import Moment, Verdict, node_of, operand_span
from fxengine.errors import DynamicBool, ForeignModule, Refusal, Rule
from fxengine.exploration.answers import Outlook, is_in_while, outlook
from fxengine.exploration.findings import Findings
from fxengine.exploration.handlers import catcher
from fxengine.exploration.problems import Describer, Trouble, failing_site, with_callers
from fxengine.graph import Graph
from fxengine.node import Node
from fxengine.proxy import Attribute, Proxy
from fxengine.source import ModuleSite, is_engine_file, is_user_file, walk_user_frames
from fxengine.tracer import Tracer

Place: TypeAlias = tuple[str, int, bytes, int]
"""An instruction: file and line of its function, the function's table of positions, and the offset in its code.

Not the code itself: of a function with `*args` each trace makes a new one.
"""

Key: TypeAlias = tuple[Place, ...]
"""Where a question is asked: the instruction, and those that lead to it within one module's forward."""

_CALL: Final[Place] = ("", 0, b"", 0)
"""Marks the key of a call, which is no question that is asked at the same place."""

_TIMES_IN_A_LOOP: Final = 2
_TIMES: Final = 64
"""How often in a row a question gets the same answer, in a `while` loop and elsewhere."""


@dataclass(frozen=True, slots=True)
class Decision:
    """An answer to a question; `assumed` if nothing says that it is the true one."""

    key: Key
    answer: bool
    assumed: bool


@dataclass(frozen=True, slots=True)
class Way:
    """How a run begins: with the first `length` decisions of another run, and then with the opposite of the next."""

    decisions: Sequence[Decision] = ()
    length: int = 0
    flips: bool = False

    def answer(self, at: int, key: Key) -> bool | None:
        """The answer to the question that is asked as number `at`; None if that is open."""
        if at >= self.length + self.flips or self.decisions[at].key != key:
            return None
        return self.decisions[at].answer is not (at == self.length)


@dataclass(slots=True)
class Knowledge:
    """What runs leave for those that come after them. Mutable.

    Attributes:
        findings: The problems.
        covered: The questions with the answers that were tried, or need not be.
        waiting: Those that are still to be tried, each with the way that leads there.
        escaping: The questions and calls whose exceptions the user's code catches but does not keep, and whether such
            an exception is the problem itself.
    """

    findings: Findings
    covered: set[tuple[Key, bool]] = field(default_factory=set[tuple[Key, bool]])
    waiting: dict[tuple[Key, bool], Way] = field(default_factory=dict[tuple[Key, bool], Way])
    escaping: dict[Key, bool] = field(default_factory=dict[Key, bool])
    outlooks: dict[Key, Outlook] = field(default_factory=dict[Key, Outlook])

    def next_way(self) -> Way | None:
        """The way to the first answer that has not been tried; None if all were."""
        while self.waiting:
            wanted = next(iter(self.waiting))
            way = self.waiting.pop(wanted)
            if wanted not in self.covered:
                return way
        return None


@dataclass(slots=True)
class _Raised:
    """A refusal that was raised really: there is no answer, or somebody catches it (`caught`: the user)."""

    key: Key
    trouble: Trouble
    answerable: bool
    caught: bool
    escaped: bool = False


@dataclass(slots=True)
class _Count:
    """How often a question was answered alike within one call of a module."""

    answer: bool
    times: int = 0


class OutOfTime(BaseException):
    """The time for exploring is over. No `Exception`: the user's code must not take it for its own."""


class Outside:
    """Stands in a graph for a module that is not part of the root, or cannot be traced through; calls it."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.__name__ = type(module).__name__
        self.__module__ = type(module).__module__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the module."""
        return self.module(*args, **kwargs)


class Run:
    """One run. After `execute` it says how far it came and what it has decided.

    Attributes:
        way: How it begins.
        decisions: What it has decided, in order.
        ended: The exception that ended it; None if it came to the end.
        stopped_at: The node of the value that it ended at.
        learned: Whether the same way leads further now that this run is over.
        blind: The nodes whose values may be anything.
    """

    def __init__(
        self, tracer: Tracer, knowledge: Knowledge, describer: Describer, way: Way, deadline: float | None
    ) -> None:
        """Prepare a run.

        Args:
            tracer: The tracer.
            knowledge: What earlier runs have left.
            describer: Makes problems of exceptions.
            way: How to begin.
            deadline: When to end, on the monotonic clock, while trying what has not been tried; None for a run that
                keeps to the likely answers, however long that takes.
        """
        self.way = way
        self.decisions: list[Decision] = []
        self.ended: BaseException | None = None
        self.stopped_at: Node | None = None
        self.learned = False
        self.blind: set[Node] = set()
        self._tracer = tracer
        self._knowledge = knowledge
        self._describer = describer
        self._deadline = deadline
        self._raised: list[_Raised] = []
        self._passing: list[tuple[Key, BaseException]] = []
        self._counts: dict[tuple[Key, ModuleSite | None], _Count] = {}
        self._opaque: set[str] = set()
        self._quiet = False

    @property
    def assumed(self) -> bool:
        """Whether any answer was assumed, or any value may be anything."""
        return bool(self.blind) or any(decision.assumed for decision in self.decisions)

    def execute(self, concrete_args: dict[str, Any] | None) -> Graph:
        """Trace, and return the graph as far as it came, without an output if it did not come to the end.

        Raises:
            OutOfTime: The deadline has passed.
        """
        tracer = self._tracer
        tracer.refusals.clear()
        with self._steering():
            try:
                tracer.trace(self._describer.root, concrete_args)
            except OutOfTime:
                raise
            except BaseException as error:  # noqa: BLE001 - this is where the user's code is called.
                self.ended = error
                self.stopped_at = self._met(error, failing_site(tracer, error), "")
        findings = self._knowledge.findings
        findings.completed.update(path for path in tracer.num_calls if path not in self._opaque)
        if self.ended is None:
            findings.completed.add("")
        for raised in self._raised:
            if raised.caught and not raised.escaped:
                findings.add_swallowed(self._describer.swallowed(raised.trouble))
        return tracer.graph

    @contextmanager
    def _steering(self) -> Generator[None]:
        """Replace what the tracer does where a run would end."""
        tracer = self._tracer
        original = tracer._intercept_call

        # Functions, not methods: a tracer is copied together with the values that belong to it.
        def refuse(
            rule: type[Rule], subject: Any, error: BaseException, instead: Callable[[], Any] | None = None
        ) -> Any:
            return self._refuse(rule, subject, error, instead)

        def call(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            depth = len(tracer.module_stack)
            try:
                return original(module, args, kwargs)
            except (RecursionError, MemoryError):
                raise
            except Exception as error:  # noqa: BLE001 - it is the user's code that was called.
                return self._call_failed(_Call(module, args, kwargs, sys._getframe(1), depth), error)

        state = vars(tracer)
        state["refuse"], state["_intercept_call"] = refuse, call
        try:
            yield
        finally:
            del state["refuse"], state["_intercept_call"]

    def _refuse(self, rule: type[Rule], subject: Any, error: BaseException, instead: Callable[[], Any] | None) -> Any:
        """Do what is done in place of raising `error`: return the answer, where there is one."""
        tracer = self._tracer
        tracer.refusals.append(Refusal(rule, subject, error))
        frame = _asking_frame(sys._getframe(2))
        if self._quiet or frame is None or tracer._site is None:
            raise error
        self._check_time()
        key = self._key(frame)
        answerable = rule is DynamicBool or instead is not None or _is_parameter(rule, subject)
        reported = self._knowledge.escaping.get(key)
        handler = catcher(error, frame, _OUTERMOST) if reported is None else None
        if handler is not None or not answerable:
            caught = handler is not None and is_user_file(handler.f_code.co_filename)
            self._raised.append(_Raised(key, self._trouble(error, tracer._site), answerable, caught))
            raise error
        unknown = self._is_unknown(subject)
        if reported is not False and not unknown:
            self._note(key, frame, Verdict(rule, subject if isinstance(subject, Proxy) else None), error)
        if rule is DynamicBool:
            return self._decide(key, frame, subject, explores=not unknown)
        return instead() if instead is not None else None

    def _call_failed(self, call: "_Call", error: Exception) -> Any:
        """What a call of a module gives that has raised: the value of a node that stands for it."""
        self._check_time()
        tracer = self._tracer
        caller = _asking_frame(call.frame)
        key = (*self._key(caller), _CALL) if caller is not None else ()
        if key not in self._knowledge.escaping and catcher(error, call.frame, _OUTERMOST) is not None:
            self._passing.append((key, error))
            raise error
        while len(tracer.module_stack) > call.depth:
            tracer.module_stack.popitem()
        tracer._stack_snapshot = None
        with_callers(error, call.frame, _OUTERMOST)
        path = self._path_of(call.module)
        inside = tracer._failure is not None and tracer._failure[0] is error
        site = failing_site(tracer, error) if inside or tracer._site is None else tracer._site
        self._met(error, site, path or "")
        self._opaque.add(path or "")
        return self._stand_in(call, path, error)

    def _met(self, error: BaseException, site: ModuleSite, left: str) -> Node | None:
        """Take in an exception that the user's code does not catch; return the node of the value in question.

        Args:
            error: The exception, its traceback beginning at the root.
            site: The call of the module whose forward raised it.
            left: The path of the module that it ended, the root's being empty.
        """
        self._arrived(error)
        trouble = self._trouble(error, site)
        verdict = trouble.verdict
        if not verdict.certain:
            # Where values may be anything, that they do not fit says nothing.
            if not self.blind:
                problem = self._describer.problem(trouble, verdict)
                self._knowledge.findings.add(problem, left if self.assumed else None)
        elif not self._is_unknown(verdict.subject):
            self._knowledge.findings.add(self._describer.problem(trouble, verdict))
        return node_of(verdict.subject)

    def _arrived(self, error: BaseException) -> None:
        """Note which exceptions were not kept by the code that caught them."""
        chain = list(_chain(error))
        escaping = self._knowledge.escaping
        for raised in self._raised:
            if any(raised.trouble.error is each for each in chain):
                raised.escaped = True
                if raised.answerable and raised.key not in escaping:
                    escaping[raised.key] = raised.trouble.error is error
                    self.learned = True
        for key, passed in self._passing:
            if any(passed is each for each in chain) and key not in escaping:
                escaping[key] = True
                self.learned = True

    def _note(self, key: Key, frame: FrameType, verdict: Verdict, error: BaseException) -> None:
        """Take in a refusal that was answered."""
        site = self._tracer._site
        assert site is not None
        findings = self._knowledge.findings
        question = (verdict.rule, key, _calls_of(site))
        record = findings.known(question)
        if record is None:
            with_callers(error, frame, _OUTERMOST)
            record = findings.add(self._describer.problem(self._trouble(error, site), verdict))
            findings.remember(question, record)
        record.instances[site.module_path] = None

    def _decide(self, key: Key, frame: FrameType, subject: Any, *, explores: bool) -> bool:
        """The truth value that the run goes on with."""
        view = self._outlook(key, frame, subject)
        answer = self.way.answer(len(self.decisions), key)
        if answer is None:
            answer = self._open_answer(key, frame, view.likely, explores=explores)
        counted = self._counts.setdefault((key, self._tracer._site), _Count(answer))
        counted.times = counted.times + 1 if counted.answer is answer else 1
        counted.answer = answer
        if explores:
            self._cover(key, answer, view)
        self.decisions.append(Decision(key, answer, assumed=True))
        return answer

    def _open_answer(self, key: Key, frame: FrameType, likely: bool, *, explores: bool) -> bool:
        """The likely answer; but what was not tried yet while exploring, and the other one if a loop is to end."""
        covered = self._knowledge.covered
        answer = likely
        if explores and self._deadline is not None and (key, likely) in covered and (key, not likely) not in covered:
            answer = not likely
        counted = self._counts.get((key, self._tracer._site))
        if counted is None or counted.answer is not answer or counted.times < _TIMES_IN_A_LOOP:
            return answer
        return answer is not (counted.times >= _TIMES or self._is_in_loop(frame))

    def _cover(self, key: Key, answer: bool, view: Outlook) -> None:
        """Note an answer as tried, and the way to the other one."""
        knowledge = self._knowledge
        knowledge.covered.add((key, answer))
        other = (key, not answer)
        if other[1] in view.idle:
            knowledge.covered.add(other)
        if other not in knowledge.covered and other not in knowledge.waiting:
            knowledge.waiting[other] = Way(self.decisions, len(self.decisions), flips=True)

    def _outlook(self, key: Key, frame: FrameType, subject: Any) -> Outlook:
        known = self._knowledge.outlooks.get(key)
        if known is None:
            moment = Moment(frame, frame.f_lasti)
            operand = operand_span(Verdict(DynamicBool, subject), moment)
            known = self._knowledge.outlooks[key] = outlook(frame.f_code, frame.f_lasti, operand)
        return known

    def _is_in_loop(self, frame: FrameType) -> bool:
        """Whether a question is asked in a `while` loop, or in a function that is called in one."""
        return any(is_in_while(code, lasti) for code, lasti in self._trail(frame))

    def _key(self, frame: FrameType) -> Key:
        """Where a question is asked; a function that calls itself counts once, however deep it is."""
        return tuple(dict.fromkeys((*_identity(code), lasti) for code, lasti in self._trail(frame)))

    def _trail(self, frame: FrameType) -> list[tuple[CodeType, int]]:
        """The instruction in a frame, and those of the user's that lead to it within one module's forward."""
        trail: tuple[Any, ...] = walk_user_frames(frame, self._tracer._boundary)
        return [(frame.f_code, frame.f_lasti), *zip(trail[::2], trail[1::2], strict=True)]

    def _trouble(self, error: BaseException, site: ModuleSite) -> Trouble:
        return Trouble(error, self._tracer.refusals, self._tracer.graph, site)

    def _path_of(self, module: nn.Module) -> str | None:
        """The path by which the graph calls a module; None if it is not part of the root."""
        self._quiet = True
        try:
            return self._tracer.path_of_module(module)
        except NameError:
            return None
        finally:
            self._quiet = False

    def _stand_in(self, call: "_Call", path: str | None, error: Exception) -> Any:
        """A node that stands for a call: with its arguments, or, if the graph cannot hold them, those that it can."""
        kind, target = ("call_module", path) if path else ("call_function", Outside(call.module))
        leaves = pytree.tree_leaves((call.args, call.kwargs))
        symbolic = tuple(leaf for leaf in leaves if isinstance(leaf, Proxy))
        self._quiet = True
        try:
            for args, kwargs in ((call.args, call.kwargs), (symbolic, dict[str, Any]())):
                try:
                    value = self._tracer.create_proxy(kind, target, args, kwargs)
                except Exception:  # noqa: BLE001, S112 - what the graph cannot hold may raise anything.
                    continue
                self.blind.add(value.node)
                return value
        finally:
            self._quiet = False
        raise error

    def _is_unknown(self, subject: Any) -> bool:
        """Whether a value, or what it is a part of, may be anything."""
        if not self.blind:
            return False
        while isinstance(subject, Attribute) and subject._node is None:
            subject = subject.root
        node = node_of(subject) if isinstance(subject, Proxy | Node) else None
        while node is not None and node not in self.blind:
            part = node.target in (getattr, operator.getitem)
            node = node.args[0] if part and isinstance(node.args[0], Node) else None
        return node is not None

    def _check_time(self) -> None:
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise OutOfTime


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of a module: who called it, and how many modules were running then."""

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    frame: FrameType
    depth: int


_OUTERMOST: Final = Run.execute.__code__


def _asking_frame(frame: FrameType | None) -> FrameType | None:
    """The innermost frame that is not the engine's own."""
    while frame is not None and is_engine_file(frame.f_code.co_filename):
        frame = frame.f_back
    return frame


def _is_parameter(rule: type[Rule], subject: Any) -> bool:
    """Whether a parameter was refused that the root has not; it goes on as a constant."""
    return rule is ForeignModule and isinstance(subject, nn.Parameter)


def _identity(code: CodeType) -> tuple[str, int, bytes]:
    return code.co_filename, code.co_firstlineno, code.co_linetable


def _calls_of(site: ModuleSite | None) -> tuple[Any, ...]:
    """The calls that lead from the root to a module's forward, by the instructions that make them."""
    calls: list[Any] = []
    while site is not None:
        calls += [_identity(each) if isinstance(each, CodeType) else each for each in site.trail]
        site = site.parent
    return tuple(calls)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An exception, and those that were being handled when it was raised."""
    pending, seen = [error], set[int]()
    while pending:
        each = pending.pop()
        if id(each) not in seen:
            seen.add(id(each))
            yield each
            pending += [other for other in (each.__cause__, each.__context__) if other is not None]
