"""One run of torch.fx's tracer that goes on where torch.fx would stop, by a script and then by rules.

Whatever the run decides is a `Step`; a run with the same script decides the same. Where torch.fx's refusal could be
swallowed on its way out it is raised for real, and only if it has been seen to come out is it answered in later runs.
"""

import functools
import inspect
import sys
import time
from collections.abc import Callable, Sequence
from types import BuiltinFunctionType, CodeType, FrameType
from typing import Any

import torch
import torch.fx
from torch import nn

from tests.parity.oracle.blindness import Blindness, identity_of
from tests.parity.oracle.calls import lookup_of
from tests.parity.oracle.causes import cause_of, chain_of, is_assignment, is_raised, text_of, wants_number
from tests.parity.oracle.instructions import (
    Handler,
    Instruction,
    Moment,
    definition_place,
    handlers_of,
    innermost_user,
    is_machinery,
    is_user,
    operands_of,
    place_of,
    stack_of,
    traceback_of,
    user_place,
    usual_answer,
)
from tests.parity.oracle.steps import Evidence, Fate, Knowledge, Occurrence, Plan, Run, Site, Step
from tests.parity.oracle.symbols import Gate, Proxy
from tests.parity.oracle.values import UNKNOWN, Feed, Values, spread

_ANSWERED = (Fate.COMES_OUT, Fate.BECOMES_ANOTHER)
_MOST_IN_A_ROW = 64
"""How often a condition gets the same answer, one time after another, within one call of a function."""


class OutOfTimeError(BaseException):
    """The run has used up its time; not an `Exception`, so that few handlers catch it."""


def opaque(*args: Any, **kwargs: Any) -> Any:
    """Stand, as a node's target, for a call that cannot be recorded."""
    raise NotImplementedError


class OracleTracer(torch.fx.Tracer):
    """torch.fx's tracer, which asks before it refuses."""

    def __init__(self, plan: Plan, knowledge: Knowledge, feed: Feed, deadline: float) -> None:
        super().__init__()
        self.plan, self.knowledge, self.feed, self.deadline = plan, knowledge, feed, deadline
        self.outcome = Run()
        self._boundary: FrameType | None = None
        self._assumed = False
        self._assumed_in: tuple[FrameType, int] | None = None
        self._evaluating = False
        self._leaving = False
        self._closed = False
        self._blind = Blindness()
        self._silent: list[BaseException] = []
        self._refusals: list[BaseException] = []
        self._out: list[BaseException] = []
        self._code: CodeType | None = None
        self._values: Values | None = None
        self._order: dict[torch.fx.Node, int] = {}
        self._made: dict[torch.fx.Node | None, Instruction | None] = {}
        self._truths: dict[Any, bool] = {}
        self._iterated: set[tuple[Instruction, Any]] = set()
        self._streaks: dict[tuple[FrameType, int], tuple[bool, int]] = {}
        self._raised: list[tuple[BaseException, int, tuple[Handler, ...]]] = []

    def run(self, root: Any, concrete_args: Any) -> Run:
        """Trace, and say what happened."""
        self._boundary = sys._getframe()
        self._code = _traced_code(root)
        known = self.knowledge
        gate = Gate(known.answered, known.recorded, self._admits, self._number, self._assign, self._call)
        run = self.outcome
        try:
            with gate:
                self.trace(root, concrete_args)
            run.completed.add("")
        except OutOfTimeError:
            raise
        except BaseException as error:  # noqa: BLE001 - the model's code is called here.
            run.error = error
        if run.error is not None and not any(error is run.error for error, _, _ in self._raised):
            self._note_failure(run.error, traceback_of(run.error.__traceback__), "", len(run.steps))
        self._weigh_raised()
        return run

    # What torch.fx calls.

    def proxy(self, node: torch.fx.Node) -> Proxy:
        """Return a symbolic value that asks."""
        return Proxy(node, self)

    def create_node(self, *args: Any, **kwargs: Any) -> torch.fx.Node:
        """Record an operation, if there is time."""
        if time.process_time() > self.deadline:
            raise OutOfTimeError
        node = super().create_node(*args, **kwargs)
        self._order[node] = len(self._order)
        self._made[node] = innermost_user(sys._getframe(1), self._boundary)
        return node

    def to_bool(self, obj: Any) -> bool:
        """Choose the truth of a condition."""
        return self._ask("bool", lambda: super(OracleTracer, self).to_bool(obj), lambda: self._truth(obj), obj)

    def iter(self, obj: Any) -> Any:
        """Iterate over the items of a value whose number is known."""
        return self._ask("iter", lambda: super(OracleTracer, self).iter(obj), lambda: self._items(obj), obj)

    def length(self, obj: Proxy, refuse: Callable[[], int]) -> int:
        """Say how long a value is."""
        return self._ask("len", refuse, lambda: self._known(obj, len), obj)

    def call_module(self, m: nn.Module, forward: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Trace a module through; its call becomes opaque if it fails."""
        if self._evaluating:
            return forward(*args, **kwargs)
        whole = super().call_module
        if self.submodule_paths is not None and m not in self.submodule_paths:
            stand_in = functools.partial(self._opaque, "call_function", self._outside(m), args, kwargs)
            return self._ask("module", lambda: whole(m, forward, args, kwargs), lambda: stand_in)()

        def guarded(*inner_args: Any, **inner_kwargs: Any) -> Any:
            stack = self.module_stack.copy()
            try:
                result = forward(*inner_args, **inner_kwargs)
            except OutOfTimeError:
                raise
            except BaseException as error:  # noqa: BLE001 - the model's code is called here.
                self._failed(error, path)
                self.module_stack.clear()
                self.module_stack.update(stack)
                return self._opaque("call_module", path, args, kwargs)
            self.outcome.completed.add(path)
            return result

        path = self.path_of_module(m)
        return whole(m, guarded, args, kwargs)

    def getattr(self, attr: str, attr_val: Any, parameter_proxy_cache: dict[str, Any]) -> Any:
        """Return the real parameter where the oracle computes values."""
        return attr_val if self._evaluating else super().getattr(attr, attr_val, parameter_proxy_cache)

    def create_arg(self, a: Any) -> Any:
        """Turn a value into an argument; a stray parameter becomes a constant."""
        if isinstance(a, nn.Parameter) and not any(a is each for each in self.root.parameters()):
            whole = super().create_arg
            return self._ask("parameter", lambda: whole(a), lambda: lambda: whole(a.detach()))()
        return super().create_arg(a)

    # What is decided.

    def _ask(self, kind: str, refuse: Callable[[], Any], answer: Callable[[], Any], subject: Any = None) -> Any:
        """Return the answer to a question about a subject, or raise what torch.fx does."""
        frame = _asking_frame()
        instruction = Instruction.at(frame.f_code, frame.f_lasti)
        value = answer()
        if subject is not None and self._blind.covers(subject):
            return self._any_answer(kind, instruction, value, refuse)
        if kind == "len" and (instruction, identity_of(subject)) in self._iterated:
            # Who makes a list of something asks for its length too; written out it would not be asked.
            return value
        index = len(self.outcome.steps)
        if self.plan.leave and index == len(self.plan.script):
            self._leaving = True
        if value is UNKNOWN or self._leaving:
            return self._refused(refuse)
        stack = list(stack_of(frame, self._boundary))
        error = _error_of(refuse)
        fate = self._fate(handlers_of(stack), error)
        step = self._scripted(kind, instruction) or self._open_step(kind, frame, instruction, fate, value, subject)
        if step.act == "raise":
            return self._raise_for_real(step, stack, refuse)
        self._keep(step, stack)
        if fate is not Fate.BECOMES_ANOTHER:
            self._note(error, stack, "symbolic", self.scope.module_path, index, subject)
        if kind == "iter":
            self._iterated.add((instruction, identity_of(subject)))
        if kind != "bool":
            return value
        self._follow(frame, instruction, bool(step.act), value, subject)
        return step.act

    def _any_answer(self, kind: str, instruction: Instruction, value: Any, refuse: Callable[[], Any]) -> Any:
        """Answer a question about a value that may be anything: torch.fx might not be asked at all."""
        if kind == "bool":
            return value if isinstance(value, bool) else usual_answer(instruction)
        if value is not UNKNOWN:
            return value
        try:
            return refuse()
        except BaseException as error:
            self._silent.append(error)
            raise

    def _open_step(
        self, kind: str, frame: FrameType, instruction: Instruction, fate: Fate, value: Any, subject: Any
    ) -> Step:
        """What is done about a question that no script settles."""
        if fate not in _ANSWERED:
            return Step(kind, instruction, "raise")
        if kind == "bool":
            return Step(kind, instruction, *self._chosen(frame, instruction, value, subject))
        return Step(kind, instruction, "answer")

    def _scripted(self, kind: str, instruction: Instruction) -> Step | None:
        index = len(self.outcome.steps)
        if self.outcome.diverged or index >= len(self.plan.script):
            return None
        step = self.plan.script[index]
        if step[:2] != (kind, instruction):
            self.outcome.diverged = True
            return None
        return step

    def _fate(self, handlers: tuple[Handler, ...], error: BaseException) -> Fate:
        """What becomes of an exception that meets these handlers, as far as it was seen."""
        return self.knowledge.fates.get((handlers, type(error)), Fate.UNKNOWN) if handlers else Fate.COMES_OUT

    def _raise_for_real(self, step: Step, stack: list[Moment], refuse: Callable[[], Any]) -> Any:
        self._keep(step, stack)
        try:
            return self._refused(refuse)
        except BaseException as error:
            self._raised.append((error, len(self.outcome.steps) - 1, handlers_of(stack)))
            raise

    def _refused(self, refuse: Callable[[], Any]) -> Any:
        """Have torch.fx refuse, and remember that it has."""
        try:
            return refuse()
        except BaseException as error:
            self._refusals.append(error)
            raise

    def _chosen(self, frame: FrameType, instruction: Instruction, truth: Any, subject: Any) -> tuple[bool, bool]:
        """The answer to a condition, and whether the other one is possible as well."""
        usual = truth if isinstance(truth, bool) else usual_answer(instruction)
        last, count = self._streaks.get((frame, instruction.offset), (usual, 0))
        if count >= _MOST_IN_A_ROW:
            return not last, False
        known = self._truths.get(identity_of(subject))
        if known is not None:
            return known, False
        covered = self.knowledge.covered
        if self.plan.explore and (instruction, usual) in covered and (instruction, not usual) not in covered:
            return not usual, True
        return usual, True

    def _follow(self, frame: FrameType, instruction: Instruction, answer: bool, truth: Any, subject: Any) -> None:
        """Remember an answer that was given."""
        last, count = self._streaks.get((frame, instruction.offset), (answer, 0))
        self._streaks[frame, instruction.offset] = (answer, count + 1 if last is answer else 1)
        if answer is not truth:
            self._assumed = True
            user = next((m for m in stack_of(frame, self._boundary) if is_user(m.frame)), None)
            self._assumed_in = user and (user.frame, user.offset)
        self._truths[identity_of(subject)] = answer
        self.knowledge.covered.add((instruction, answer))
        self.knowledge.ways.add((self.outcome.ways[-1], answer))

    def _failed(self, error: BaseException, path: str, *, is_call: bool = False) -> None:
        """Settle what an exception means that a forward or a function raised; return if its call is to be opaque."""
        if self._leaving or any(error is raised for raised, _, _ in self._raised):
            raise error
        outer = list(stack_of(sys._getframe(1), self._boundary))
        stack = [*traceback_of(error.__traceback__), *outer]
        if is_call and not self._is_recordable(error, stack):
            raise error
        instruction = stack[0].instruction
        index = len(self.outcome.steps)
        if self.plan.leave and index == len(self.plan.script):
            self._leaving = True
            raise error
        step = self._scripted("failed", instruction)
        if step is None:
            is_out = self._fate(handlers_of(outer), error) in _ANSWERED
            step = Step("failed", instruction, "opaque" if is_out else "raise")
        self._keep(step, stack)
        if step.act == "raise":
            self._raised.append((error, index, handlers_of(outer)))
            raise error
        self._note_failure(error, stack, path, index, ends=not is_call)

    def _keep(self, step: Step, stack: Sequence[Moment]) -> None:
        self.outcome.steps.append(step)
        codes = ((moment.frame.f_code, moment.offset) for moment in stack if not is_machinery(moment.frame))
        self.outcome.ways.append(tuple((code.co_filename, code.co_firstlineno, offset) for code, offset in codes))

    def _note(
        self, error: BaseException, stack: list[Moment], cause: str, path: str, index: int, subject: Any = None
    ) -> None:
        """Remember that torch.fx would raise here, were the first so many steps done."""
        assumed = self._assumed or bool(self._blind)
        place = user_place(stack)
        node = vars(subject).get("node", vars(subject).get("_node")) if subject is not None else None
        made = self._made.get(node)
        # The position of a jump is all of its statement; what decides it was computed in a part of that.
        if made is not None and stack[0].instruction.opname.startswith(("POP_JUMP", "JUMP", "UNARY_NOT", "TO_BOOL")):
            place = place_of(made).within(place)
        if place is None and self._code is not None:
            place = definition_place(self._code)
        site = Site(place, type(error).__name__, text_of(error), cause)
        evidence = Evidence(tuple(self.outcome.steps[:index]), self.knowledge.answered, self.knowledge.recorded)
        self.outcome.occurrences.append(Occurrence(site, evidence, path, assumed))

    def _note_failure(
        self, error: BaseException, stack: list[Moment], path: str, index: int, *, ends: bool = True
    ) -> None:
        """The same of an exception that was not asked for and came out; it may be answered in later runs."""
        if any(error is silent for silent in self._silent):
            self.outcome.dead_ends += 1
            return
        self._out.append(error)
        self.knowledge.fates[handlers_of(stack), type(error)] = Fate.COMES_OUT
        cause = cause_of(error, stack, self._assumed_in)
        again = ends and (self._is_answerable(error, stack) or self._becomes_recorded(error, stack))
        if again:
            self.outcome.again = len(self.plan.script)
        self.outcome.dead_ends += ends and cause != "own" and not again
        if not (again and is_assignment(error)):
            # Whose item is assigned is known only when it is answered: the value may be any.
            among = self._symbols(stack) if self._blind else set()
            if True in among:
                cause = "either" if False in among else "unclear"
            self._note(error, stack, cause, path, index)

    def _symbols(self, stack: Sequence[Moment]) -> set[bool]:
        """For the symbolic values in the expression that the user's code has come to, whether they may be anything."""
        user = next((moment for moment in stack if is_user(moment.frame)), None)
        if user is None:
            return set()
        made = (self._made[node] for node in self._blind)
        here = place_of(user.instruction)
        inside = any(each is not None and place_of(each).within(here) != here for each in made)
        return self._blind.among(operands_of(user)) | ({True} if inside else set())

    def _is_answerable(self, error: BaseException, stack: list[Moment]) -> bool:
        """Whether C code has failed that can be given what it asks for, and will be from the next run on."""
        if not isinstance(error, TypeError) or not stack or is_machinery(stack[0].frame) or self._leaving:
            return False
        instruction = stack[0].instruction
        is_new = not is_raised(stack) and (self._closed or instruction not in self.knowledge.answered)
        if is_new and (is_assignment(error) or self._has_values()):
            self.knowledge.refused.setdefault(instruction, error)
            return True
        return False

    def _becomes_recorded(self, error: BaseException, stack: list[Moment]) -> bool:
        """Whether a function has failed that cannot take symbolic values, and will be recorded from the next run on."""
        if self._leaving or not self._is_recordable(error, stack):
            return False
        call = next(moment.instruction for moment in stack if is_user(moment.frame))
        if lookup_of(call) is None or call in self.knowledge.recorded:
            return False
        self.knowledge.failed.add(call)
        return True

    def _is_recordable(self, error: BaseException, stack: list[Moment]) -> bool:
        """Whether a call by the user's code failed as it was handed a symbolic value, but not for want of a number."""
        if any(error is refusal for refusal in self._refusals) or wants_number(error, stack):
            return False
        if not any(is_user(moment.frame) for moment in stack):
            return False
        cause = cause_of(error, stack, self._assumed_in)
        return cause == "symbolic" or (cause == "unclear" and is_user(stack[0].frame) and bool(self._symbols(stack)))

    def _has_values(self) -> bool:
        return self.feed.arguments is not None or any(node.op == "get_attr" for node in self.graph.nodes)

    def _weigh_raised(self) -> None:
        """Learn from the exceptions that were raised for real what became of them."""
        out = [*self._out, *([] if self.outcome.error is None else [self.outcome.error])]
        for error, index, handlers in self._raised:
            fate = Fate.IS_SWALLOWED
            if any(error is each for each in out):
                fate = Fate.COMES_OUT
            elif any(error is each for other in out for each in chain_of(other)):
                fate = Fate.BECOMES_ANOTHER
            self.knowledge.fates[handlers, type(error)] = fate
            if fate in _ANSWERED and self.outcome.again is None:
                self.outcome.again = index

    def _admits(self, frame: FrameType) -> bool:
        """Whether the instruction that a frame comes to is given what it asks for."""
        if self._leaving or (self.plan.leave and len(self.outcome.steps) == len(self.plan.script)):
            return False
        instruction = Instruction.at(frame.f_code, frame.f_lasti)
        index = len(self.outcome.steps)
        planned = self.plan.script[index] if index < len(self.plan.script) else None
        if planned is not None and planned.instruction == instruction and planned.kind in {"number", "item"}:
            return True
        error = self.knowledge.refused[instruction]
        admitted = self._fate(handlers_of(stack_of(frame, self._boundary)), error) in _ANSWERED
        self._closed = self._closed or not admitted
        return admitted

    def _number(self, obj: Proxy, conversion: Callable[[Any], Any]) -> Any:
        """What C code is given that wants a number."""
        number = self._known(obj, conversion)
        if number is UNKNOWN:
            raise TypeError(f"{type(obj).__name__} has no value")
        self._record_answer("number", obj)
        return number

    def _assign(self, target: Callable[..., Any], *args: Any) -> None:
        """Record that an item is assigned or deleted."""
        self._record_answer("item", args[0])
        self.create_proxy("call_function", target, args, {})

    def _record_answer(self, kind: str, subject: Proxy) -> None:
        frame = _asking_frame()
        instruction = Instruction.at(frame.f_code, frame.f_lasti)
        stack = list(stack_of(frame, self._boundary))
        self._scripted(kind, instruction)
        self._keep(Step(kind, instruction, "answer"), stack)
        if not self._blind.covers(subject):
            error = self.knowledge.refused[instruction]
            self._note(error, stack, "symbolic", self.scope.module_path, len(self.outcome.steps) - 1)

    def _call(self, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """What a function gives that may not take symbolic values: a node if it does not."""
        modules = self.module_stack.copy()
        try:
            return function(*args, **kwargs)
        except (RecursionError, MemoryError):
            raise
        except Exception as error:  # noqa: BLE001 - whatever it makes of symbolic values.
            self._failed(error, self.scope.module_path, is_call=True)
        self.module_stack.clear()
        self.module_stack.update(modules)
        is_torchs = isinstance(function, BuiltinFunctionType) and (function.__module__ or "torch").startswith("torch")
        return self._opaque("call_function", function, args, kwargs, is_tensor=is_torchs)

    def _outside(self, module: nn.Module) -> Callable[..., Any]:
        """The target of a node that calls a module which the root does not have."""

        def outside(*args: Any, **kwargs: Any) -> Any:
            return self.feed.call(module, args, kwargs)

        return outside

    def _opaque(self, kind: str, target: Any, args: Any, kwargs: Any, *, is_tensor: bool = False) -> Any:
        """What a call gives that is not traced through."""
        try:
            result = self.create_proxy(kind, target, args, kwargs)
        except Exception:  # noqa: BLE001 - its arguments are what the graph cannot hold.
            result = self.create_proxy("call_function", opaque, (), {})
        known = self._value_of(result)
        if known is not UNKNOWN:
            return spread(known, result, self._blind.add)
        if not is_tensor:
            self._blind.add(result.node)
        return result

    # What values are.

    def _value_of(self, obj: Proxy) -> Any:
        if self._values is None:
            self._values = Values(self.feed, self.root, opaque, self._order)
        node = obj.node
        self._evaluating = True
        try:
            return self._values.of(node)
        finally:
            self._evaluating = False

    def _known(self, obj: Proxy, question: Callable[[Any], Any]) -> Any:
        """What a question gives for a value; `UNKNOWN` if the value or the answer is not to be had."""
        value = self._value_of(obj)
        if value is UNKNOWN:
            return UNKNOWN
        try:
            with self.feed.mode:
                return question(value)
        except Exception:  # noqa: BLE001 - the question has no answer.
            return UNKNOWN

    def _truth(self, obj: Proxy) -> Any:
        """The truth of a value if it is known, else None."""
        known = self._known(obj, bool)
        return None if known is UNKNOWN else known

    def _items(self, obj: Proxy) -> Any:
        value = self._value_of(obj)
        if isinstance(value, dict):
            return iter(list(value))
        count = self._known(obj, len)
        return UNKNOWN if count is UNKNOWN else (obj[index] for index in range(count))


def _asking_frame() -> FrameType:
    """The innermost frame that is neither torch.fx's nor the oracle's."""
    frame = sys._getframe(1)
    while frame.f_back is not None and is_machinery(frame):
        frame = frame.f_back
    return frame


def _error_of(refuse: Callable[[], Any]) -> BaseException:
    try:
        refuse()
    except BaseException as error:  # noqa: BLE001 - it is what is asked for.
        return error
    raise AssertionError("torch.fx did not refuse")


def _traced_code(root: Any) -> CodeType | None:
    function = type(root).forward if isinstance(root, nn.Module) else root
    return getattr(inspect.unwrap(function), "__code__", None)
