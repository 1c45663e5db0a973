"""Building a target on the meta device: the ways that the request names, in order, then what can be inferred.

Tensors are made on meta; where building needs values of tensors they are real ones on the CPU, and where even that
fails the whole model is built for real. A class that the file builds only inside another model may have no way of its
own: that is no fault, and the caller decides what to make of it.
"""

import contextlib
import inspect
import re
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from functools import partial
from types import SimpleNamespace
from typing import Any, Final, TypeAlias

import torch
from torch import nn

from fxengine.classification import moments_of
from fxengine.errors import text_of
from fxengine.places import OnTheSpot
from fxengine.source import is_user_file
from fxworker.absent import is_array
from fxworker.accelerators import without_devices
from fxworker.arguments import Search
from fxworker.arrays import arrays_are_made
from fxworker.callers import EXPRESSION, is_asserted
from fxworker.choices import every_parameter_of, required_parameters, taking_several
from fxworker.conventions import is_configuration
from fxworker.data_files import with_files_supplied
from fxworker.importing import with_stars
from fxworker.initialising import with_groups
from fxworker.inner import NotReachedError, locals_of
from fxworker.leaving_out import with_calls_left_out
from fxworker.lineages import heirs_of
from fxworker.loading import Loaded
from fxworker.makers import functions_making, made_in, methods_making, scope_with, settings_of, with_configurations
from fxworker.meta import OnMeta, forget_made, speaks_of_meta
from fxworker.mistakes import is_of_code
from fxworker.offline import without_weights
from fxworker.own_calls import is_refused_by
from fxworker.packages import reach, with_packages
from fxworker.slicing import names_in
from fxworker.stock import has_stand_in
from fxworker.supplied import with_arguments_supplied
from fxworker.wanting import wants_arguments
from fxworker.wholes import part_of, scope_with_wholes
from fxworker.wire import LOCALS, Construct, Provenance, TraceTarget

_Maker: TypeAlias = Callable[[Callable[[], Any]], Any]

_LACKING: Final = re.compile(
    r"'(?:types\.)?(Identity|Module|Namespace|SimpleNamespace|Sized)' object has no attribute"
    r"|.*\b(Identity|Namespace|SimpleNamespace)(?:\(\)| object\b)"
    r"|.* must be \w+, not (Identity|Namespace|SimpleNamespace)\b"
)
"""What is said of the things that stand in for what a class wants."""

_STRANGE: Final = re.compile(r"module is not installed as a submodule")
_HELD: Final = re.compile(r"SimpleNamespace\(.*(?:\bnn\.\w+\(|type\('Module')")
"""What a tracer says of a module that the root does not have, and a stand-in that hides one."""

_SECONDS_OF_OTHERS: Final = 1.0
"""How long arguments are searched for of a subclass, or of a function that makes an instance."""

EXPLICIT: Final = frozenset({"directive", "configuration"})
"""Ways that the person wrote down for us: one that fails is told, not passed over."""

MADE_UP: Final = frozenset[Provenance]({"inferred", "remembered"})
"""Where constructions come from that nobody wrote."""


@dataclass(frozen=True, slots=True)
class Built:
    """A model, and the way that built it; None for a function, and for an instance, which the file built itself.

    `inputs` is what it is called with where it is a part of a model of another file, an argument list.
    """

    root: Any
    construct: Construct | None
    inputs: str = ""

    @property
    def is_made_up(self) -> bool:
        """Whether it was built with arguments that nobody wrote down."""
        return self.construct is not None and self.construct.source in MADE_UP


@dataclass(frozen=True, slots=True)
class Unbuilt:
    """Why there is no model.

    `error` is what the way `construct` raised; it is None where no way is known, and `tried` then says which arguments
    were inferred in vain, and `error` what the last ones raised. `other` says that the class is no model in truth.
    """

    construct: Construct | None
    error: BaseException | None
    unknown: bool = False
    missing: tuple[str, ...] = ()
    tried: str = ""
    other: bool = False


def build(
    target: TraceTarget,
    loaded: Loaded,
    hint: str = "",
    on_guess: Callable[[], bool] | None = None,
    *,
    real: bool = False,
) -> Built | Unbuilt:
    """Return the model of a target, or why there is none.

    Args:
        target: What to build.
        loaded: The file's module, executed.
        hint: Arguments that were inferred before, to try before others are searched for.
        on_guess: Is told before arguments are searched for, and may forbid it by returning False.
        real: Whether it is to have real weights, to be run.
    """
    make = _directly if real else attempt
    try:
        scope = scope_of(loaded, target.qualname)
        found = _resolve(scope, target.callee)
    except (KeyError, AttributeError, NotReachedError) as error:
        return _not_there(error)
    scope = scope_with_wholes([hint, *(each.expression for each in target.constructs)], target, loaded, scope)
    if target.kind == "function":
        return Built(found, None)
    if target.kind == "instance" or isinstance(found, nn.Module):
        return _made_before(target, found)
    if isinstance(found, type) and not issubclass(found, nn.Module):
        return Unbuilt(None, None, other=True)
    failed: Unbuilt | None = None
    for construct in target.constructs:
        if hint and construct.source == "remembered":
            continue  # What was inferred since then fits better.
        result = _evaluate(construct, scope, make)
        if isinstance(result, Built):
            return _located(result, loaded)
        if not _is_a_try(construct, loaded) and reach(construct.expression, scope):
            failed = failed or result
        if construct.source in EXPLICIT:
            return result
    return _located(_unaided(target, found, loaded, make, failed, hint, on_guess, scope), loaded)


def _made_before(target: TraceTarget, found: Any) -> Built | Unbuilt:
    """Return what a name of the file stands for as a model."""
    construct = target.constructs[0] if target.constructs else None
    if isinstance(found, nn.Module):
        return _set_up(found, construct)
    if isinstance(found, type) and (construct is None or construct.source not in EXPLICIT):
        # What was taken for a call that makes a model gives a class of them.
        return Unbuilt(None, None, other=True)
    return Unbuilt(construct, TypeError(f"`{target.qualname}` is a {type(found).__name__}, not an nn.Module"))


def _located(result: Built | Unbuilt, loaded: Loaded) -> Built | Unbuilt:
    """Return a model that was built with arguments which were inferred, with where the project says what they are."""
    construct = result.construct
    if not isinstance(result, Built) or construct is None or not result.is_made_up:
        return result
    return replace(result, construct=replace(construct, location=settings_of(loaded).location_of(construct.expression)))


def with_values(built: Built, target: TraceTarget, loaded: Loaded) -> Built | None:
    """Return a model built once more, for real: with the values that its tensors have; None where it cannot be."""
    construct = built.construct
    if construct is None:
        return None
    scope = scope_with(names_in(construct.expression), loaded, scope_of(loaded, target.qualname))
    scope = scope_with_wholes([construct.expression], target, loaded, scope)
    found = _evaluate(construct, scope, _valued)
    return replace(found, inputs=built.inputs) if isinstance(found, Built) else None


def built_as(expression: str, target: TraceTarget, loaded: Loaded, *, real: bool = False) -> Built | None:
    """Return a model of a target that a construction makes; None where it does not make one.

    Args:
        expression: The construction.
        target: What is built.
        loaded: The file's module.
        real: Whether it may be built with values where it cannot be without.
    """
    scope = scope_with(names_in(expression), loaded, scope_of(loaded, target.qualname))
    found = _evaluate(Construct(expression, "inferred"), scope, partial(attempt, real=real))
    return found if isinstance(found, Built) else None


def _valued(build_it: Callable[[], Any]) -> Any:
    """Return what a callable builds on the processor, as it would be without us."""
    making = partial(with_groups, partial(_with_what_is_absent, partial(with_stars, build_it)))
    with without_devices(is_asserted), arrays_are_made(is_array):
        try:
            return with_calls_left_out(making)
        except RuntimeError as error:
            if not speaks_of_meta(error):
                raise
            forget_made(error)  # Of the model without values.
            return with_calls_left_out(making)


def class_of(target: TraceTarget, loaded: Loaded) -> type | None:
    """Return the class that a target is, None where it is none or is not there."""
    try:
        found = _resolve(scope_of(loaded, target.qualname), target.callee)
    except (KeyError, AttributeError, NotReachedError):
        return None
    return found if isinstance(found, type) else None


def _not_there(error: Exception) -> Unbuilt:
    """Return why there is no class, or no function that gives it."""
    if isinstance(error, NotReachedError):
        return Unbuilt(None, error.__cause__ or error, unknown=True, tried=error.tried)
    return Unbuilt(None, error)


def _is_a_try(construct: Construct, loaded: Loaded) -> bool:
    """Whether a way to build comes from outside of the file: that it fails is no fault of the file."""
    location = construct.location
    return construct.source == "remembered" or (
        location is not None and construct.source not in EXPLICIT and location.path != str(loaded.module.__file__)
    )


def scope_of(loaded: Loaded, qualname: str = "") -> dict[str, Any]:
    """Return the names that expressions about a file's models may use.

    They are the module's own, torch's, and for a class that a function defines those of the function.

    Raises:
        NotReachedError: The function could not be executed as far as the class needs it.
    """
    scope = {"torch": torch, "nn": nn, "SimpleNamespace": SimpleNamespace, **loaded.namespace}
    if LOCALS in qualname:
        scope |= locals_of(qualname, loaded, scope, partial(attempt, real=False))
    return scope


@contextlib.contextmanager
def here() -> Generator[None]:
    """Let models run on the processor in the body, wherever their code wants to have its tensors."""
    with without_devices(is_asserted), OnTheSpot():
        yield


def attempt(build_it: Callable[[], Any], *, real: bool = True) -> Any:
    """Return what a callable builds, with as few real tensors as it allows.

    Args:
        build_it: The callable.
        real: Whether it may be built for real where nothing else helps.

    Raises:
        BaseException: What it raises on the meta device, or otherwise if that speaks of the device, unless it can be
            built otherwise; TypeError for a model with a module that has no hash.
    """
    with without_devices(is_asserted), arrays_are_made(is_array):
        building = partial(with_groups, partial(_with_what_is_absent, partial(_attempted, build_it, real=real)))
        built = with_calls_left_out(lambda: with_arguments_supplied(building, attempt))
    _walk_through(built)
    return built


def _walk_through(built: Any) -> None:
    """Raise what torch would of a model whose modules cannot be told apart, such as one with a `weakref.proxy`."""
    found = set[nn.Module]()
    pending = [("", built)] if isinstance(built, nn.Module) else []
    while pending:
        path, module = pending.pop()
        try:
            is_known = module in found
        except TypeError as error:
            told = f"`{path}` is a module without a hash" if path else "the model has no hash"
            raise TypeError(f"{text_of(error)}: {told}, which `parameters()` and a trace need") from None
        if not is_known:
            found.add(module)
            before = f"{path}." if path else ""
            # One that has not called the constructor of its base has no parts yet.
            parts = module.__dict__.get("_modules", {})
            pending += [(before + name, each) for name, each in parts.items() if each is not None]


def _with_what_is_absent(build_it: Callable[[], Any]) -> Any:
    """Return what a callable builds that may want weights and files which are not there."""
    return with_files_supplied(partial(without_weights, build_it))


def _attempted(build_it: Callable[[], Any], *, real: bool) -> Any:
    """Do what `attempt` says."""
    on_meta = OnMeta(values_on_cpu=True)
    try:
        with on_meta:
            return with_stars(build_it)
    except Exception as error:  # noqa: BLE001 — User code; what it needs of meta tensors shows in any exception.
        first = error
    # Code that asks a tensor without values for some cannot be built otherwise, whatever it makes of the refusal.
    of_meta = on_meta.has_refused or speaks_of_meta(first)
    if isinstance(first, IndexError | NameError | ImportError | RecursionError) and not on_meta.has_refused:
        raise first
    real, told = real or of_meta, first
    for context in (OnMeta(), contextlib.nullcontext()) if real else (OnMeta(),):
        if of_meta:
            forget_made(told)
        try:
            with context:
                return build_it()
        except Exception as error:  # noqa: BLE001 — As above.
            refused = speaks_of_meta(error) or (isinstance(context, OnMeta) and context.has_refused)
            if _same(error, first) and not refused:
                break
            if of_meta and not refused:
                # What it says with values is what its arguments lack.
                told = error
    raise told


def _unaided(
    target: TraceTarget,
    cls: Any,
    loaded: Loaded,
    make: _Maker,
    failed: Unbuilt | None,
    hint: str,
    on_guess: Callable[[], bool] | None,
    scope: dict[str, Any],
) -> Built | Unbuilt:
    """Build a class that nothing in the request could build: without arguments, or with inferred ones."""
    if inspect.isabstract(cls):
        # No arguments make one of it: it is shown by what inherits its forward, or is there for others alone.
        may_search = on_guess is None or on_guess()
        heir = by_heir(target, loaded, make) if may_search else None
        return heir or failed or Unbuilt(None, None, other=True)
    if failed is not None and (
        is_refused_by(cls, failed.construct, failed.error, loaded) or is_of_code(failed.error, loaded)
    ):
        return failed
    required = required_parameters(cls)
    # What was found instead of it shows what it lacks itself.
    instead = bool(hint) and not hint.startswith(f"{target.callee}(")
    # What takes any number of things is built of some, or of none where there is nothing that it takes.
    may_be_bare = not required and not instead and taking_several(cls) is None
    bare = _evaluate(Construct(f"{target.callee}()", "no arguments"), scope, make) if may_be_bare else None
    if isinstance(bare, Built) or (bare is not None and is_of_code(bare.error, loaded)):
        return bare
    if bare is not None and failed is None:
        if not (every_parameter_of(cls) and wants_arguments(cls, bare.error)):
            if not _is_refused_elsewhere(bare.error, loaded):
                return bare
            return replace(bare, unknown=True, tried=f"{target.callee}()")
        failed = Unbuilt(None, bare.error, unknown=True, tried=f"{target.callee}()")
    known = scope_with(names_in(hint), loaded, scope) if hint else scope
    result = _evaluate(Construct(hint, "inferred"), known, make) if hint else None
    if isinstance(result, Built):
        return result
    if on_guess is not None and not on_guess():
        return failed or Unbuilt(None, None, unknown=True, missing=tuple(required))
    return _inferred(target, cls, loaded, make, failed)


def _inferred(target: TraceTarget, cls: Any, loaded: Loaded, make: _Maker, failed: Unbuilt | None) -> Built | Unbuilt:
    """Build a class with arguments that are searched for."""
    scope = scope_of(loaded, target.qualname)
    search = _search(target, cls, loaded, scope)
    # A function that makes the parts as well makes better ones, and so does a model that has all this as a part.
    found = _by_functions(cls, loaded, scope) if search.stands_in else None
    if found is None and search.makes_up and (part := in_wholes(target, loaded, make)) is not None:
        return part
    found = found or search.run()
    if found is None and (part := in_wholes(target, loaded, make)) is not None:
        return part
    if found is None or _stands_in(found[0]):
        found = _by_methods(target, cls, loaded, scope, found) or found
    if found is not None:
        return _made(found, loaded, scope, make)
    if (heir := _by_heirs(cls, loaded, scope, make)) is not None:
        return heir
    if is_of_code(search.error, loaded):
        return Unbuilt(Construct(search.tried, "inferred"), search.error)
    missing = tuple(required_parameters(cls))
    return failed or Unbuilt(None, search.error, unknown=True, missing=missing, tried=search.tried)


def _by_methods(
    target: TraceTarget, cls: Any, loaded: Loaded, scope: dict[str, Any], otherwise: tuple[str, Any] | None
) -> tuple[str, Any] | None:
    """Return a call of a method of a class that makes an instance, with inferred arguments, and the instance.

    Where there is one otherwise, of parts that something stands in for, it has to be one of none such.
    """
    for name in methods_making(cls):
        callee, making = f"{target.callee}.{name}", partial(attempt, real=False)
        search = Search(callee, getattr(cls, name), scope, making, kind=cls, settings=settings_of(loaded))
        made = search.run() if otherwise is None else search.run(seconds=_SECONDS_OF_OTHERS)
        if made is not None and (otherwise is None or not _stands_in(made[0])):
            return made
    return None


def _stands_in(expression: str) -> bool:
    """Whether an expression hands on what stands in for a module, or for an object of any class."""
    return has_stand_in(expression) or "SimpleNamespace(" in expression


def by_heir(target: TraceTarget, loaded: Loaded, make: _Maker = attempt) -> Built | None:
    """Return an instance of a subclass that inherits a target's forward, of the file or of another; None for none."""
    cls = class_of(target, loaded)
    if cls is None or not issubclass(cls, nn.Module):
        return None
    scope = scope_of(loaded, target.qualname)
    return _by_heirs(cls, loaded, scope, make) or in_wholes(target, loaded, make)


def _by_heirs(cls: Any, loaded: Loaded, scope: dict[str, Any], make: _Maker) -> Built | None:
    """Return an instance of a subclass that has a class's forward, which shows it; one that somebody wrote first."""
    heirs = list(heirs_of(cls, loaded.namespace))
    for name, _ in heirs:
        constructs, inputs = loaded.calls.get(name, ((), ()))
        for construct in constructs:
            found = _evaluate(construct, scope, make)
            if isinstance(found, Built):
                made = Construct(construct.expression, "inferred", construct.location)
                return replace(found, construct=made, inputs=next((each.expression for each in inputs), ""))
    for name, heir in heirs:
        search = Search(name, heir, scope, partial(attempt, real=False), settings=settings_of(loaded))
        if (found := search.run(seconds=_SECONDS_OF_OTHERS)) is not None:
            made = _made(found, loaded, scope, make)
            return made if isinstance(made, Built) else None
    return None


def _made(found: tuple[str, Any], loaded: Loaded, scope: dict[str, Any], make: _Maker) -> Built | Unbuilt:
    """Return the model of an expression that a search has found, made anew where it is to have real weights."""
    expression, root = found
    construct = Construct(expression, "inferred")
    if make is attempt:
        return _set_up(root, construct)
    return _evaluate(construct, scope_with(names_in(expression), loaded, scope), make)


def in_wholes(target: TraceTarget, loaded: Loaded, make: _Maker = attempt) -> Built | None:
    """Return an instance of a target's class as a model of another file has it, None where none can be built."""
    cls = class_of(target, loaded) if target.wholes else None
    if cls is None:
        return None
    scope = scope_of(loaded, target.qualname)
    part = part_of(target, cls, loaded, scope, partial(attempt, real=False))
    if part is None:
        return None
    construct = Construct(part.expression, "inferred")
    if make is attempt:
        found = _set_up(part.root, construct)
    else:
        found = _evaluate(construct, scope_with_wholes([part.expression], target, loaded, scope), make)
    return replace(found, inputs=part.inputs) if isinstance(found, Built) else None


def _by_functions(cls: Any, loaded: Loaded, scope: dict[str, Any]) -> tuple[str, Any] | None:
    """Return a call of a function of the file, with inferred arguments, and the instance of a class that it makes."""
    for name in functions_making(cls.__name__, loaded):
        known = scope_with([name], loaded, scope)
        if name in known:
            kind = (cls, tuple, list)
            making = partial(attempt, real=False)
            search = Search(name, known[name], known, making, kind=kind, settings=settings_of(loaded))
            expression, value = search.run(seconds=_SECONDS_OF_OTHERS) or ("", None)
            root = made_in(value, cls)
            if root is not None:
                return expression, root
    return None


def search_for(target: TraceTarget, loaded: Loaded) -> Search | None:
    """Return a search for the arguments of a target, None where there is nothing to call."""
    try:
        scope = scope_of(loaded, target.qualname)
        cls = _resolve(scope, target.callee)
    except (KeyError, AttributeError, NotReachedError):
        return None
    return _search(target, cls, loaded, scope) if isinstance(cls, type) else None


def _search(target: TraceTarget, cls: Any, loaded: Loaded, scope: dict[str, Any]) -> Search:
    inner = any(target.qualname in names for name, names in loaded.mentions.items() if name != target.qualname)
    if any(map(is_configuration, required_parameters(cls))):
        scope = with_configurations(loaded, scope)
    settings = settings_of(loaded)
    return Search(
        target.callee,
        cls,
        scope,
        partial(attempt, real=False),
        inner=inner,
        settings=settings,
        is_hopeless=partial(is_of_code, loaded=loaded),
    )


def misbuilt(built: Built, error: BaseException | None) -> Unbuilt | None:
    """Return why a model is none in truth that fails since an argument that was made up lacks what it asks for."""
    construct = built.construct
    if construct is None or not built.is_made_up or not isinstance(error, Exception):
        return None
    lacking = _LACKING.match(text_of(error))
    if not hides_stand_in(built, error) and (
        lacking is None or str(lacking[lacking.lastindex or 0]) not in construct.expression
    ):
        return None
    missing = tuple(required_parameters(type(built.root)))
    return Unbuilt(None, error, unknown=True, missing=missing, tried=construct.expression)


def hides_stand_in(built: Built, error: BaseException | None) -> bool:
    """Whether a trace does not know a module since one that was made up is held by what is none itself."""
    if built.construct is None or not built.is_made_up or not isinstance(error, Exception):
        return False
    return _STRANGE.match(text_of(error)) is not None and _HELD.search(built.construct.expression) is not None


def _directly(build_it: Callable[[], Any]) -> Any:
    """Return what a callable builds, with arrays where absent packages would make some."""
    with arrays_are_made(is_array):
        return build_it()


def _evaluate(construct: Construct, scope: dict[str, Any], make: _Maker) -> Built | Unbuilt:
    try:
        place = EXPRESSION if construct.source in MADE_UP else "<construct>"
        code = compile(construct.expression.strip(), place, "eval")
        reach(construct.expression, scope)
        names = with_packages(code, scope)
        root = made_in(make(lambda: eval(code, names)), nn.Module)  # noqa: S307 — The person's own expression.
    except BaseException as error:  # noqa: BLE001 — User code; SystemExit too is an answer.
        return Unbuilt(construct, error)
    if root is None:
        return Unbuilt(construct, TypeError(f"`{construct.expression}` gives no nn.Module"))
    return _set_up(root, construct)


def _set_up(root: nn.Module, construct: Construct | None) -> Built | Unbuilt:
    """Return a model that went through `nn.Module`'s constructor; with another one nothing can be done."""
    root = made_in(root, nn.Module)
    if "_modules" in vars(root) or isinstance(root, torch.jit.ScriptModule):
        return Built(root, construct)
    text = f"the constructor of `{type(root).__name__}` does not call `super().__init__()`"
    return Unbuilt(construct, AttributeError(text))


def _resolve(scope: dict[str, Any], qualname: str) -> Any:
    first, *rest = qualname.split(".")
    value = scope[first]
    for name in rest:
        value = getattr(value, name)
    return value


def _is_refused_elsewhere(error: BaseException | None, loaded: Loaded) -> bool:
    """Whether another file than this one refused to make something, as by a `raise`: it wants something done before.

    Torch's own refusals are about what it was given, which this file has written.
    """
    moments = moments_of(error.__traceback__) if isinstance(error, Exception) else []
    if not moments or isinstance(error, ImportError | OSError):
        return False
    return moments[-1].raises and is_user_file(moments[-1].path) and moments[-1].path != loaded.module.__file__


def _same(error: BaseException, other: BaseException) -> bool:
    return type(error) is type(other) and text_of(error) == text_of(other)
