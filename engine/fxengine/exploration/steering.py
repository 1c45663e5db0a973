"""One run of a tracer that goes on where it would have ended.

For the length of a run a few things are replaced on the tracer that was given: what it does when it refuses a symbolic
value something, and what it does at a call of a module. The first returns an answer where there is one, the second
turns a call that raised into a node that stands for it. Whatever the user's own code would catch is raised really.
"""

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any, Final

from torch import nn

from fxengine.classification import Moment, Verdict, callee_of, moments_of, node_of, symbolic_operands
from fxengine.diagnosis import EnoughSeen, Guard
from fxengine.errors import (
    OF_THE_CODE,
    DynamicBool,
    DynamicIteration,
    DynamicLength,
    DynamicNumber,
    ForeignCall,
    ForeignModule,
    Refusal,
    Rule,
)
from fxengine.exploration.choices import Choices, Coverage, Way
from fxengine.exploration.deadlines import Deadline
from fxengine.exploration.findings import Findings, Record
from fxengine.exploration.numbers import Again, Gate, Grants, numbers_at
from fxengine.exploration.places import CALL, Key, asking_frame, calls_of, key_of
from fxengine.exploration.problems import Describer, Trouble, chain_of, failing_site, with_callers
from fxengine.exploration.stand_ins import Leaves, StandIns, items_of
from fxengine.exploration.values import UNKNOWN, Values
from fxengine.graph import Graph
from fxengine.handlers import catcher
from fxengine.hierarchy import Survey
from fxengine.node import Node
from fxengine.patching import Patches
from fxengine.proxy import Proxy
from fxengine.source import ModuleSite, is_user_file
from fxengine.tracer import Tracer

_NOTHING: Final = object()
"""Stands for an answer that there is none of."""


@dataclass(slots=True)
class Knowledge:
    """What runs leave for those that come after them. Mutable.

    Attributes:
        values: What symbolic values are for the inputs in use.
        findings: The problems.
        coverage: What was tried.
        grants: Which values have numbers.
        leaves: Which functions are recorded instead of called.
        escaping: The questions and calls whose exceptions the user's code catches but does not keep, and whether such
            an exception is the problem itself.
        survey: What a walk through the model finds at the beginning of each run.
    """

    values: Values
    findings: Findings = field(default_factory=Findings)
    coverage: Coverage = field(default_factory=Coverage)
    grants: Grants = field(default_factory=Grants)
    leaves: Leaves = field(default_factory=Leaves)
    escaping: dict[Key, bool] = field(default_factory=dict[Key, bool])
    survey: Survey | None = None


class OutOfTime(BaseException):
    """The time for exploring is over. No `Exception`: the user's code must not take it for its own."""


@dataclass(slots=True)
class _Raised:
    """A refusal that was raised really: there is no answer, or somebody catches it (`caught`: the user)."""

    key: Key
    trouble: Trouble
    answerable: bool
    caught: bool
    escaped: bool = False


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of a module: who called it, and how many modules were running then."""

    module: nn.Module
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    frame: FrameType
    depth: int


class Run:
    """One run. After `execute` it says how far it came and what it has decided.

    Attributes:
        choices: What it has decided.
        stand_ins: The nodes that stand for what could not be traced.
        guards: What metadata has decided, by place and value.
        ended: The exception that ended it; None if it came to the end.
        stopped_at: The node of the value that it ended at.
        learned: Whether the same way leads further now that this run is over.
    """

    def __init__(
        self,
        tracer: Tracer,
        knowledge: Knowledge,
        describer: Describer,
        way: Way,
        deadline: Deadline | None,
        *,
        explores: bool,
    ) -> None:
        """Prepare a run.

        Args:
            tracer: The tracer.
            knowledge: What earlier runs have left.
            describer: Makes problems of exceptions.
            way: How to begin.
            deadline: When to end; None for a run that goes on however long that takes.
            explores: Whether to try what has not been tried, instead of keeping to the likely answers.
        """
        self.choices = Choices(knowledge.coverage, way, tracer._boundary, explores=explores)
        self.stand_ins = StandIns(tracer, knowledge.values)
        self.guards: dict[Any, Guard] = {}
        self.ended: BaseException | None = None
        self.stopped_at: Node | None = None
        self.learned = False
        self._tracer = tracer
        self._knowledge = knowledge
        self._describer = describer
        self._deadline = deadline
        self._gate = Gate(knowledge.grants, knowledge.values)
        self._raised: list[_Raised] = []
        self._passing: list[tuple[Key, BaseException]] = []
        self._opaque: set[str] = set()
        self._iterated: tuple[FrameType, int, int] | None = None
        self._quiet = False

    @property
    def assumed(self) -> bool:
        """Whether any answer was assumed, or any value may be anything."""
        return bool(self.stand_ins.blind) or self.choices.assumed

    def execute(self, concrete_args: dict[str, Any] | None) -> Graph:
        """Trace, and return the graph as far as it came, without an output if it did not come to the end.

        Raises:
            OutOfTime: The deadline has passed.
            Again: The run has to be made again.
        """
        tracer = self._tracer
        tracer.refusals.clear()
        self._knowledge.values.start(tracer)
        with self._steering(), Patches() as patches:
            self._knowledge.leaves.patch(patches, self._leaf_called)
            try:
                tracer.trace(self._describer.root, concrete_args)
            except (OutOfTime, Again, EnoughSeen):
                raise
            except BaseException as error:  # noqa: BLE001 - this is where the user's code is called.
                self.ended = error
                self.stopped_at = self._met(error, failing_site(tracer, error), "")
        if self._gate.void:
            raise Again
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
        original, make_proxy = tracer._intercept_call, tracer.proxy

        # Functions, not methods: a tracer is copied together with the values that belong to it.
        def refuse(
            rule: type[Rule], subject: Any, error: BaseException, instead: Callable[[], Any] | None = None
        ) -> Any:
            return self._refuse(rule, subject, error, instead)

        def call(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            depth = len(tracer.module_stack)
            self._check_time()
            try:
                return original(module, args, kwargs)
            except (RecursionError, MemoryError):
                raise
            except Exception as error:  # noqa: BLE001 - it is the user's code that was called.
                return self._call_failed(_Call(module, args, kwargs, sys._getframe(1), depth), error)

        def proxy(node: Node) -> Proxy:
            self._check_time()
            made = make_proxy(node)
            self._gate.admit(made)
            return made

        replaced: dict[str, Callable[..., Any]] = {"refuse": refuse, "_intercept_call": call}
        if self._gate.is_open or self._deadline is not None:
            replaced["proxy"] = proxy
        if (known := self._knowledge.survey) is not None:
            replaced["_survey"] = lambda _: replace(known, constants=known.constants.copy())
        state = vars(tracer)
        before = {name: state[name] for name in replaced if name in state}
        state.update(replaced)
        try:
            yield
        finally:
            for name in replaced:
                del state[name]
            state.update(before)

    def _refuse(self, rule: type[Rule], subject: Any, error: BaseException, instead: Callable[[], Any] | None) -> Any:
        """Do what is done in place of raising `error`: return the answer, where there is one."""
        tracer = self._tracer
        tracer.refusals.append(Refusal(rule, subject, error))
        frame = asking_frame(sys._getframe(2))
        if self._quiet or self._gate.void or frame is None or tracer._site is None:
            raise error
        self._check_time()
        key = key_of(frame, tracer._boundary)
        reported = self._knowledge.escaping.get(key)
        handler = catcher(error, frame, _OUTERMOST) if reported is None else None
        answerable = rule is DynamicBool or instead is not None or _is_parameter(rule, subject)
        answer = _NOTHING if answerable else self._known_answer(rule, subject)
        place = (frame, frame.f_lasti, id(subject))
        if rule is DynamicLength and self._iterated == place and answer is not _NOTHING:
            # Whoever takes all items asks how many there are as well: that is one question.
            return answer
        if handler is not None or (not answerable and answer is _NOTHING):
            caught = handler is not None and is_user_file(handler.f_code.co_filename)
            trouble = self._trouble(error, tracer._site)
            self._raised.append(_Raised(key, trouble, answerable or answer is not _NOTHING, caught))
            raise error
        true = self._knowledge.values.truth(subject) if rule is DynamicBool else None
        unknown = self.stand_ins.is_unknown(subject)
        record = None
        if reported is not False and not unknown:
            record = self._note(key, frame, Verdict(rule, subject if isinstance(subject, Proxy) else None), error)
        if rule is DynamicBool:
            if unknown:
                return self.choices.follow(key, bool(true))
            decided = self.choices.decide(key, frame, tracer._site, subject, true)
            self._guard(record, decided, true)
            return decided
        if instead is not None:
            return instead()
        if rule is DynamicIteration:
            self._iterated = place
        return None if answer is _NOTHING else answer

    def _known_answer(self, rule: type[Rule], subject: Any) -> Any:
        """The length or the items of a value, as far as the inputs tell."""
        values = self._knowledge.values
        if rule is DynamicLength:
            length = values.length(subject)
            return _NOTHING if length is None else length
        if rule is DynamicIteration:
            known = values.of(subject)
            items = None if known is UNKNOWN else items_of(subject, known)
            return _NOTHING if items is None else items
        return _NOTHING

    def _guard(self, record: Record | None, decided: bool, true: bool | None) -> None:
        """Note an answer that metadata has given."""
        if record is not None and decided is true:
            site = record.problem.site
            expression = " ".join(site.text.split()) if site is not None else ""
            self.guards[site, decided] = Guard(expression, decided, site)

    def _leaf_called(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """What a call gives of a function that could not take symbolic values elsewhere: a node if it cannot here."""
        try:
            return function(*args, **kwargs)
        except (RecursionError, MemoryError):
            raise
        except Exception as error:  # Whatever it makes of symbolic values.
            frame, site = asking_frame(sys._getframe(1)), self._tracer._site
            if frame is None or site is None or not self._takes_over(error, frame, site):
                raise
        with self._unsteered():
            return self.stand_ins.for_function(function, args, kwargs)

    def _takes_over(self, error: Exception, frame: FrameType, site: ModuleSite) -> bool:
        """Whether a call that failed in a frame did so as it was given symbolic values, and nobody catches that."""
        self._check_time()
        key = (*key_of(frame, self._tracer._boundary), CALL)
        if key not in self._knowledge.escaping and catcher(error, frame, _OUTERMOST) is not None:
            self._passing.append((key, error))
            return False
        findings = self._knowledge.findings
        question = (type(error), key, calls_of(site))
        record = findings.known(question)
        if record is not None:
            record.instances[site.module_path] = None
            return True
        inside = error.__traceback__
        trouble = self._trouble(with_callers(error, frame, _OUTERMOST), site)
        verdict = trouble.verdict
        if verdict.rule is not ForeignCall or self._gate.void:
            error.with_traceback(inside)
            return False
        self._arrived(error)
        if self.stand_ins.is_unknown(verdict.subject):
            self.choices.taught_nothing()
        else:
            problem = self._describer.problem(trouble, verdict, self._printed(verdict.subject))
            findings.remember(question, findings.add(problem))
        return True

    def _call_failed(self, call: _Call, error: Exception) -> Any:
        """What a call of a module gives that has raised: the value of a node that stands for it."""
        self._check_time()
        tracer = self._tracer
        caller = asking_frame(call.frame)
        key = (*key_of(caller, tracer._boundary), CALL) if caller is not None else ()
        if key not in self._knowledge.escaping and catcher(error, call.frame, _OUTERMOST) is not None:
            self._passing.append((key, error))
            raise error
        tracer._unwind(call.depth)
        with_callers(error, call.frame, _OUTERMOST)
        path = self._path_of(call.module)
        inside = tracer._failure is not None and tracer._failure[0] is error
        site = failing_site(tracer, error) if inside or tracer._site is None else tracer._site
        self._met(error, site, path or "")
        self._opaque.add(path or "")
        with self._unsteered():
            try:
                return self.stand_ins.for_module(call.module, path, call.args, call.kwargs)
            except Exception:  # noqa: BLE001 - what the graph cannot hold may raise anything.
                raise error from None

    def _met(self, error: BaseException, site: ModuleSite, left: str) -> Node | None:
        """Take in an exception that the user's code does not catch; return the node of the value in question.

        Args:
            error: The exception, its traceback beginning at the root.
            site: The call of the module whose forward raised it.
            left: The path of the module that it ended, the root's being empty.
        """
        if self._gate.void:
            return None
        self._arrived(error)
        self.choices.failed()
        trouble = self._trouble(error, site)
        verdict = trouble.verdict
        if verdict.rule in {DynamicNumber, ForeignCall}:
            self.learned = self._grant(trouble, verdict.rule) or self.learned
        if not verdict.certain:
            # Where values may be anything, that they do not fit says nothing; a name is lacking whatever they are.
            if not self.stand_ins.blind or _is_of_the_code(error):
                self._found(trouble, verdict, left if self.assumed else None)
        else:
            # A path that ends here for want of an answer goes round whatever other paths raise.
            self._knowledge.findings.completed.add(left)
            if not self.stand_ins.is_unknown(verdict.subject):
                self._found(trouble, verdict)
        return node_of(verdict.subject)

    def _found(self, trouble: Trouble, verdict: Verdict, doubtful: str | None = None) -> None:
        """Take in the problem that an exception is. It is put into words once, however many modules meet it."""
        findings, place = self._knowledge.findings, self._describer.place(trouble, verdict)
        if not findings.add_again(verdict.rule, place, trouble.site.module_path, doubtful):
            value = self._printed(verdict.subject)
            findings.add(self._describer.problem(trouble, verdict, value, place), doubtful)

    def _grant(self, trouble: Trouble, rule: type[Rule]) -> bool:
        """Let C code have what it asked for the next time: a number, or no symbolic value at all; whether that is new.

        A function that wants other things than numbers is made a leaf then, as `wrap` does it. A dict that has no such
        key has not asked for a number.
        """
        inside = moments_of(trouble.error.__traceback__)
        if not inside:
            return False
        moment, values, grants = inside[-1], self._knowledge.values, self._knowledge.grants
        user = next((each for each in reversed(inside) if is_user_file(each.path)), moment)
        operands = [each for m in {id(m): m for m in (moment, user)}.values() for each in self._operands(m)]
        asked = not isinstance(trouble.error, KeyError)
        granted = [asked and grants.grant(e, moment.source) for e in operands if values.number(e) is not None]
        if any(granted) or rule is not ForeignCall:
            return any(granted)
        callee = callee_of(user)
        return callee is not None and self._knowledge.leaves.add(*callee)

    def _operands(self, moment: Moment) -> list[Proxy | Node]:
        graph = self._tracer.graph
        return [*symbolic_operands(moment, graph), *numbers_at(moment, graph)]

    def _arrived(self, error: BaseException) -> None:
        """Note which exceptions were not kept by the code that caught them."""
        chain = list(chain_of(error))
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

    def _note(self, key: Key, frame: FrameType, verdict: Verdict, error: BaseException) -> Record:
        """Take in a refusal that was answered."""
        site = self._tracer._site
        assert site is not None
        findings = self._knowledge.findings
        question = (verdict.rule, key, calls_of(site))
        record = findings.known(question)
        if record is None:
            with_callers(error, frame, _OUTERMOST)
            value = self._printed(verdict.subject, verdict.rule)
            record = findings.add(self._describer.problem(self._trouble(error, site), verdict, value))
            findings.remember(question, record)
        record.instances[site.module_path] = None
        return record

    def _printed(self, subject: Any, rule: type[Rule] | None = None) -> str:
        """What a value is for the inputs in use, if that can be printed in a few characters."""
        values = self._knowledge.values
        if not isinstance(subject, Proxy | Node):
            return ""
        if rule is DynamicBool:
            truth = values.truth(subject)
            return "" if truth is None else str(truth)
        if rule in {DynamicLength, DynamicIteration}:
            length = values.length(subject)
            items = f" item{'' if length == 1 else 's'}" if rule is DynamicIteration else ""
            return "" if length is None else f"{length}{items}"
        number = values.number(subject)
        return "" if number is None else str(number)

    def _trouble(self, error: BaseException, site: ModuleSite) -> Trouble:
        return Trouble(error, self._tracer.refusals, self._tracer.graph, site, self.choices.assumed_in)

    def _path_of(self, module: nn.Module) -> str | None:
        """The path by which the graph calls a module; None if it is not part of the root."""
        with self._unsteered():
            try:
                return self._tracer.path_of_module(module)
            except NameError:
                return None

    @contextmanager
    def _unsteered(self) -> Generator[None]:
        """Let the tracer raise what it refuses, for that is our own doing."""
        before, self._quiet = self._quiet, True
        try:
            yield
        finally:
            self._quiet = before

    def _check_time(self) -> None:
        if self._deadline is not None and self._deadline.is_over():
            raise OutOfTime


_OUTERMOST: Final = Run.execute.__code__


def _is_of_the_code(error: BaseException) -> bool:
    """Whether an exception tells of a fault of the code, whatever values it works on."""
    return isinstance(error, OF_THE_CODE) and not isinstance(error, UnboundLocalError)


def _is_parameter(rule: type[Rule], subject: Any) -> bool:
    """Whether a parameter was refused that the root has not; it goes on as a constant."""
    return rule is ForeignModule and isinstance(subject, nn.Parameter)
