"""What discovery found in one file: the targets that can be traced, and the places that features ask about.

Everything here is a fact of the file's syntax. Whether a class can in truth be built, and what its forward takes, is
known only to the worker, which reports it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias, TypeVar

from fxls.discovery.assignments import Assignments
from fxls.later import Later
from fxls.text.edits import Carry
from fxworker.wire import Construct, Inputs, Location, Problem, Provenance, Setting, Span, TraceTarget

ParameterKind: TypeAlias = Literal["positional", "keyword", "arguments", "keywords"]

_RANKS: Final[dict[Provenance, int]] = {
    "directive": 0,
    "configuration": 1,
    "instance": 2,
    "call": 3,
    "factory": 4,
    "remembered": 5,
    "no arguments": 6,
    "inferred": 7,
}

_Sourced = TypeVar("_Sourced", Construct, Inputs)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a function. `annotation` and `default` are source text, "" where there is none.

    `arguments` is `*args`, `keywords` is `**kwargs`; a parameter that needs a value is one of the other two kinds
    without a default.
    """

    name: str
    span: Span
    annotation: str
    default: str
    kind: ParameterKind

    @property
    def required(self) -> bool:
        """Whether a call must give it a value."""
        return not self.default and self.kind in {"positional", "keyword"}


@dataclass(frozen=True, slots=True)
class Function:
    """A function or method: its name, the name's span, that of the whole definition, its parameters without `self`."""

    name: str
    name_span: Span
    span: Span
    parameters: Sequence[Parameter]


@dataclass(frozen=True, slots=True)
class ModelClass:
    """A class that is a module, as far as syntax can tell.

    `header` is the line of its first decorator, or of `class`: a directive stands above it. `init` and `forward` are
    its own or those of the nearest base class in the file. `bases` are the base classes as they are written.
    """

    qualname: str
    name_span: Span
    span: Span
    header: int
    bases: tuple[str, ...]
    init: Function | None
    forward: Function | None

    @property
    def required(self) -> tuple[str, ...]:
        """The parameters that the constructor needs, as far as the file shows it."""
        return tuple(each.name for each in self.init.parameters if each.required) if self.init is not None else ()


@dataclass(frozen=True, slots=True)
class ModelVariable:
    """One mention of a variable that holds an instance of a target, such as `model` in `model(x)`."""

    name: str
    span: Span
    target: str


@dataclass(frozen=True, slots=True)
class ConfiguredTarget:
    """An entry `[[tool.fxls.target]]` of a pyproject.toml. `path` is absolute; an empty `qualname` is every target."""

    path: str
    qualname: str
    construct: str
    inputs: str
    location: Location | None = None


@dataclass(frozen=True, slots=True)
class IgnoredCode:
    """A code, or the beginning of one, in a comment that ignores it."""

    code: str
    span: Span


@dataclass(frozen=True, slots=True)
class Ignore:
    """A comment `# fx: ignore[FX001]`; without codes whatever is reported is ignored.

    `span` ends where the next comment on the line begins, or with the line. It speaks of the lines from `first_line`
    to its own. One that is not `readable` is not written as it should be and ignores nothing; one that stands `alone`
    has no code on its line. `run` are the lines from its statement to the end of the statement's block: what they left
    in a graph shows that the statement ran.
    """

    span: Span
    first_line: int
    codes: tuple[IgnoredCode, ...]
    readable: bool
    alone: bool
    run: tuple[int, int]

    def covers(self, span: Span) -> bool:
        """Whether a problem at a span is on the lines that this speaks of."""
        return self.readable and self.first_line <= span.end_line and span.line <= self.span.line


@dataclass(frozen=True, slots=True)
class ModelIndex:
    """The targets and the named places of a file.

    `parsed` is False when the text has a syntax error, which `syntax_error` describes; the index is then that of the
    last text that parsed, carried to the current one, or empty. `imported` are the full names that it imports;
    `settings` is what it, and the project, say about values that constructors may read.
    """

    path: str
    parsed: bool = True
    targets: tuple[TraceTarget, ...] = ()
    classes: Sequence[ModelClass] = ()
    variables: Sequence[ModelVariable] = ()
    assignments: Assignments = field(default_factory=Assignments)
    ignores: tuple[Ignore, ...] = ()
    syntax_error: Problem | None = None
    imported: frozenset[str] = frozenset()
    settings: tuple[Setting, ...] = ()

    @property
    def parts(self) -> tuple[str, ...]:
        """The classes at module level that may be built, or fed, as a part of something in another file.

        They are those of which the file does not say how they are built and fed, and those of which the person wrote
        down how they are built.
        """
        return tuple(
            each.qualname
            for each in self.targets
            if each.kind == "class"
            and "." not in each.qualname
            and (not (each.constructs and each.inputs) or each.constructs[0].source in {"directive", "configuration"})
        )

    def target(self, qualname: str) -> TraceTarget | None:
        """Return the target of that name."""
        return next((each for each in self.targets if each.qualname == qualname), None)

    def model_class(self, qualname: str) -> ModelClass | None:
        """Return the class of that name."""
        return next((each for each in self.classes if each.qualname == qualname), None)

    def class_at(self, line: int) -> ModelClass | None:
        """Return the innermost class around a line."""
        around = [each for each in self.classes if each.header <= line <= each.span.end_line]
        return max(around, key=lambda each: each.header, default=None)

    def configured(self, entries: Iterable[ConfiguredTarget]) -> "ModelIndex":
        """Return the index with what the project's configuration says about this file's targets."""
        here = [entry for entry in entries if entry.path == self.path]
        if not here:
            return self
        return replace(self, targets=tuple(_with_configuration(target, here) for target in self.targets))

    def carried(self, carry: Carry) -> "ModelIndex":
        """Return the index in the coordinates of an edited text, without what the edits took away.

        What diagnostics do not need, and there may be thousands of, is carried when it is asked for.
        """
        return replace(
            self,
            targets=_present(_carried_target(each, self.path, carry) for each in self.targets),
            classes=Later(lambda: _present(_carried_class(each, carry) for each in self.classes)),
            variables=Later(lambda: _present(_carried_variable(each, carry) for each in self.variables)),
            assignments=self.assignments.carried(carry),
            ignores=_present(_carried_ignore(each, carry) for each in self.ignores),
            settings=_present(_carried_setting(each, self.path, carry) for each in self.settings),
        )


def ordered(items: Iterable[_Sourced]) -> tuple[_Sourced, ...]:
    """Return ways to build or feed in the order in which they are tried, the first of equal expressions only."""
    unique: dict[str, _Sourced] = {}
    for item in sorted(items, key=lambda each: _RANKS[each.source]):
        unique.setdefault(item.expression, item)
    return tuple(unique.values())


_Item = TypeVar("_Item")


def _present(items: Iterable[_Item | None]) -> tuple[_Item, ...]:
    return tuple(item for item in items if item is not None)


def _with_configuration(target: TraceTarget, entries: list[ConfiguredTarget]) -> TraceTarget:
    entries = [entry for entry in entries if entry.qualname in {"", target.qualname}]
    constructs = [Construct(each.construct, "configuration", each.location) for each in entries if each.construct]
    inputs = [Inputs(each.inputs, "configuration", each.location) for each in entries if each.inputs]
    return replace(
        target, constructs=ordered((*constructs, *target.constructs)), inputs=ordered((*inputs, *target.inputs))
    )


def _carried_target(target: TraceTarget, path: str, carry: Carry) -> TraceTarget | None:
    name = carry.span(target.name)
    if name is None:
        return None
    constructs = tuple(replace(each, location=_moved(each.location, path, carry)) for each in target.constructs)
    inputs = tuple(replace(each, location=_moved(each.location, path, carry)) for each in target.inputs)
    return replace(target, name=name, constructs=constructs, inputs=inputs)


def _moved(location: Location | None, path: str, carry: Carry) -> Location | None:
    """Return a location that the edits moved, None where they touched it."""
    if location is None or location.path != path:
        return location
    span = carry.span(location.span)
    return None if span is None else Location(path, span)


def _carried_setting(setting: Setting, path: str, carry: Carry) -> Setting | None:
    location = _moved(setting.location, path, carry)
    return None if location is None else replace(setting, location=location)


def _carried_class(found: ModelClass, carry: Carry) -> ModelClass | None:
    name_span, span = carry.span(found.name_span), carry.around(found.span)
    if name_span is None or span is None:
        return None
    return replace(
        found,
        name_span=name_span,
        span=span,
        header=span.line,
        init=_carried_function(found.init, carry),
        forward=_carried_function(found.forward, carry),
    )


def _carried_function(function: Function | None, carry: Carry) -> Function | None:
    if function is None:
        return None
    name_span, span = carry.span(function.name_span), carry.around(function.span)
    if name_span is None or span is None:
        return None
    parameters = Later(lambda: _present(_carried_parameter(each, carry) for each in function.parameters))
    return Function(function.name, name_span, span, parameters)


def _carried_parameter(parameter: Parameter, carry: Carry) -> Parameter | None:
    span = carry.span(parameter.span)
    return None if span is None else replace(parameter, span=span)


def _carried_variable(variable: ModelVariable, carry: Carry) -> ModelVariable | None:
    span = carry.span(variable.span)
    return None if span is None else replace(variable, span=span)


def _carried_ignore(ignore: Ignore, carry: Carry) -> Ignore | None:
    span = carry.span(ignore.span)
    codes = [(each, carry.span(each.span)) for each in ignore.codes]
    if span is None or any(moved is None for _, moved in codes):
        return None
    # The lines around may have been edited; the next search finds out where they begin and end.
    moved = span.line - ignore.span.line
    first, last = (carry.line(each) or each + moved for each in ignore.run)
    return replace(
        ignore,
        span=span,
        first_line=ignore.first_line + moved,
        codes=tuple(replace(each, span=moved) for each, moved in codes if moved is not None),
        run=(first, last),
    )
