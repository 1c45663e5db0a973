"""What is told where a person has probably meant something else: another name, a method, a `self`, a call of the base.

A problem is moved to the place of the slip where that is another one than the one that raised.
"""

import ast
import re
from collections.abc import Iterable, Sequence
from dataclasses import astuple, replace
from types import FunctionType, ModuleType
from typing import Any, Final

from torch.nn import Module

from fxengine.classification import Moment, moments_of
from fxengine.errors import kept_in, text_of
from fxengine.source import is_user_file
from fxengine.syntax import definition_of, tree_of
from fxworker import forgotten
from fxworker.kinds import Mistaken, mistaken_operand
from fxworker.misspelling import alike, meant_as_constructor, meant_as_forward
from fxworker.mistakes import is_uninitialized
from fxworker.wire import MADE_HERE, Edit, Fix, Location, Problem, Related, Slip, Span

_CALLED: Final = re.compile(r"^(\w+)\.(\w+)\(\) (?:takes .*positional arguments? but|got multiple values for argument)")
"""What Python says of a method that is given one argument too many, the object itself."""

_OF_SLIPS: Final = (AttributeError, NameError, NotImplementedError, TypeError)
"""What a slip raises."""

_SELF: Final = "self"
_STATES: Final = ("_modules", "_parameters", "_buffers")


def told(problem: Problem, error: BaseException, path: str, lines: Sequence[str]) -> Problem:
    """Return what is told of a problem, as far as a slip of the person's may have led to it.

    Args:
        problem: The problem.
        error: What was raised.
        path: The edited file.
        lines: Its lines.
    """
    if not isinstance(error, _OF_SLIPS):
        return problem
    cls = _lacking_forward(error)
    if cls is not None:
        return without_forward(problem, cls, path, lines)
    cls = _lacking_constructor(error)
    name = meant_as_constructor(_methods(cls)) if cls is not None else ""
    if cls is not None and name:
        message = f"`{cls.__name__}` has no `__init__`, and nothing calls `{name}`: is that what it is meant to be?"
        renamed = _renamed(problem, cls, name, "__init__", message, path, lines)
        return problem if renamed is None else _beside(renamed, problem)
    moments = moments_of(error.__traceback__)
    if is_uninitialized(error, moments):
        return _uninitialized(problem, moments)
    without_self = _without_self(error, path)
    if without_self is not None:
        owner, definition = without_self
        place = _name_of(definition, path, lines)
        message = f"`{definition.name}` of `{owner.name}` has no parameter `self`, which each method is given first"
        return _beside(replace(problem, message=message, location=place, slip=Slip(_SELF)), problem)
    own = next((each for each in reversed(moments) if is_user_file(each.path)), None)
    mistake = mistaken_operand(error, own) if own is not None and own.path == path else None
    if mistake is not None:
        made = None if mistake.frame is None else Location(path, Span(*astuple(mistake.frame)[2:]))
        related = (*([] if made is None else [Related(made, MADE_HERE)]), *problem.related)
        return replace(problem, message=mistake.message, related=related, slip=slip_of(mistake, made))
    unimported = forgotten.told(problem, error) if own is not None and own.path == path else None
    return unimported or _misspelt(problem, error, own)


def slip_of(mistake: Mistaken | None, made: Location | None) -> Slip | None:
    """Return what was probably meant in place of what is taken for one value; None where that is not known."""
    return Slip(mistake.kind, mistake.name, made) if mistake is not None and mistake.kind is not None else None


def _misspelt(problem: Problem, error: BaseException, own: Moment | None) -> Problem:
    """Return a problem that says what was probably meant in place of a name or an attribute that is not there."""
    meant = _meant(error, own) if own is not None else ""
    if not meant:
        return problem
    return replace(problem, message=f"{problem.message}: is `{meant}` meant?", slip=Slip("name", meant))


def without_forward(problem: Problem, cls: type[Module], path: str, lines: Sequence[str]) -> Problem:
    """Return what is told of a model that has no `forward`, at the method that is probably meant to be it."""
    name = meant_as_forward(_methods(cls))
    message = f"`{cls.__name__}` has no `forward`, and nothing calls `{name}`: is that what it is meant to be?"
    return _renamed(problem, cls, name, "forward", message, path, lines) or problem


def _renamed(
    problem: Problem, cls: type, name: str, meant: str, message: str, path: str, lines: Sequence[str]
) -> Problem | None:
    """Return a problem at the name of a method, with its renaming; None where there is none, or in another file."""
    code = _methods(cls)[name].__code__ if name else None
    if code is None or code.co_filename != path:
        return None
    definition = definition_of(code.co_filename, code.co_firstlineno, name)
    if not isinstance(definition, ast.FunctionDef):
        return None
    place = _name_of(definition, path, lines)
    fix = Fix(f"Call it `{meant}`", (Edit(place, meant),), verified=False)
    return replace(problem, message=message, location=place, fixes=(fix,))


def _beside(problem: Problem, raised: Problem) -> Problem:
    """Return a problem that was moved, with where it was raised."""
    return replace(problem, related=(Related(raised.location, raised.message), *problem.related))


def _name_of(definition: ast.FunctionDef, path: str, lines: Sequence[str]) -> Location:
    """Return where the name of a function stands."""
    head, name = lines[definition.lineno - 1].encode(), definition.name.encode()
    column = head.find(name, definition.col_offset + len("def"))
    return Location(path, Span(definition.lineno, column, definition.lineno, column + len(name)))


def _uninitialized(problem: Problem, moments: Sequence[Moment]) -> Problem:
    """Return what is told of a module whose constructor has not called that of `nn.Module`."""
    own = [each.frame.f_code.co_qualname for each in moments if is_user_file(each.path)]
    name = next((each for each in reversed(own) if each.endswith(".__init__")), "__init__")
    message = f"`{name}` has to call `super().__init__()` before it gives the module any parts"
    return replace(problem, message=message)


def _without_self(error: BaseException, path: str) -> tuple[ast.ClassDef, ast.FunctionDef] | None:
    """Return the method of the edited file that speaks of `self` and has no such parameter, if one has raised so."""
    is_unknown = type(error) is NameError and kept_in(error, NameError, "name") == _SELF
    called = _CALLED.match(text_of(error)) if type(error) is TypeError else None
    if not is_unknown and called is None:
        return None
    tree = tree_of(path)
    classes = [each for each in ast.walk(tree) if isinstance(each, ast.ClassDef)] if tree is not None else []
    methods = [(owner, each) for owner in classes for each in owner.body if isinstance(each, ast.FunctionDef)]
    if called is not None:
        found = [each for each in methods if (each[0].name, each[1].name) == called.groups()]
    else:
        line = next((each.source.line for each in moments_of(error.__traceback__)[::-1] if each.path == path), 0)
        found = [each for each in methods if each[1].lineno <= line <= (each[1].end_lineno or 0)]
    return next((each for each in found if _lacks_self(*each)), None)


def _lacks_self(owner: ast.ClassDef, method: ast.FunctionDef) -> bool:
    """Whether a method has no parameter `self` and speaks of it, or all others of its class have one."""
    if _SELF in _parameters_of(method) or method.decorator_list:
        return False
    others = [each for each in owner.body if isinstance(each, ast.FunctionDef) and each is not method]
    have = [_SELF in _parameters_of(each) for each in others if not each.decorator_list]
    speaks = any(isinstance(each, ast.Name) and each.id == _SELF for each in ast.walk(method))
    return speaks or (bool(have) and all(have))


def _parameters_of(method: ast.FunctionDef) -> set[str]:
    return {each.arg for each in ast.walk(method.args) if isinstance(each, ast.arg)}


def _meant(error: BaseException, own: Moment) -> str:
    """Return the expression that was probably meant where a name or an attribute is not there; "" where none is."""
    if type(error) is NameError:
        return _meant_by_name(str(kept_in(error, NameError, "name")), own)
    if not isinstance(error, AttributeError):
        return ""
    owner, name = kept_in(error, AttributeError, "obj"), kept_in(error, AttributeError, "name")
    text, dot, asked = own.source.text.rpartition(".")
    if not dot or asked != name:
        return ""
    if isinstance(owner, ModuleType):
        found = alike(name, (each for each in vars(owner) if not each.startswith("_")))
        return f"{text}.{found}" if found else ""
    if not isinstance(owner, Module):
        return ""
    if text == _SELF and name in own.frame.f_locals:
        return str(name)
    found = alike(name, _attributes(owner))
    return f"{text}.{found}" if found else ""


def _meant_by_name(name: str, moment: Moment) -> str:
    """Return what a name that is not there is probably meant to be."""
    owner, scope = moment.frame.f_locals.get(_SELF), moment.frame.f_globals
    if isinstance(owner, Module) and name in {*_attributes(owner)}:
        return f"{_SELF}.{name}"
    packages = (key for key, each in scope.items() if isinstance(each, ModuleType) and _is_given_by(each, name))
    return next((f"{key}.{name}" for key in packages), "") or alike(name, [*moment.frame.f_locals, *scope])


def _is_given_by(package: ModuleType, name: str) -> bool:
    """Whether a package has something by a name that is not merely a module which it imports itself."""
    found = vars(package).get(name)
    is_own = not isinstance(found, ModuleType) or found.__name__.startswith(f"{package.__name__}.")
    return found is not None and is_own


def _attributes(owner: Module) -> Iterable[str]:
    """Return the names of what a module has, and of the methods of its classes but torch's."""
    own = vars(owner)
    classes = type(owner).__mro__[: type(owner).__mro__.index(Module)]
    kept = (name for state in _STATES for name in own.get(state, ()))
    return dict.fromkeys((*kept, *own.keys(), *(name for cls in classes for name in vars(cls)))).keys() - {*_STATES}


def _methods(cls: type) -> dict[str, FunctionType]:
    """Return the methods that a class has itself."""
    return {name: each for name, each in vars(cls).items() if isinstance(each, FunctionType)}


def _lacking_constructor(error: BaseException) -> type[Module] | None:
    """Return the class of a module that lacks what a constructor gives it: an attribute, or arguments of its own."""
    if isinstance(error, AttributeError):
        owner = kept_in(error, AttributeError, "obj")
        return type(owner) if isinstance(owner, Module) else None
    return _refusing(error, Module.__init__) if isinstance(error, TypeError) else None


def _lacking_forward(error: BaseException) -> type[Module] | None:
    """Return the class of a module that was called and has no `forward`, if that is what an error says."""
    return _refusing(error, Module.forward) if isinstance(error, NotImplementedError) else None


def _refusing(error: BaseException, method: Any) -> type[Module] | None:
    """Return the class of the module whose method of torch's has raised an error; None where another has."""
    traceback, last = error.__traceback__, None
    while traceback is not None:
        traceback, last = traceback.tb_next, traceback.tb_frame
    owner = last.f_locals.get("self") if last is not None and last.f_code is method.__code__ else None
    return type(owner) if isinstance(owner, Module) else None
