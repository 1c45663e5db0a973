"""What a constructor raises because of its own code, whatever arguments it is given: none are worth looking for then.

It has to be certain: a class that lacks arguments only raises much of the same.
"""

import ast
import re
from collections.abc import Sequence
from types import ModuleType
from typing import Any, Final

from torch import nn

from fxengine.classification import Moment, moments_of
from fxengine.errors import kept_in, text_of
from fxengine.inputs.faults import is_fault
from fxengine.source import is_user_file
from fxengine.syntax import nodes_around, tree_of
from fxworker.absent import lacks_base
from fxworker.lacking import raised_within
from fxworker.loading import Loaded
from fxworker.tracebacks import is_given_none

_PARTS: Final = "_modules"
"""What `nn.Module`'s constructor gives each module."""

_WRONG_CALL: Final = re.compile(
    r"missing \d+ required (?:positional|keyword-only) argument"
    r"|takes .*positional arguments? but|unexpected keyword argument"
)
"""What Python says of a call with other parameters than a function has."""

_UNEXPECTED: Final = re.compile(r"unexpected keyword argument '(\w+)'")
_OF_SUPER: Final = re.compile(r"^(?:descriptor '__init__' of 'super' object|super\()")
"""What Python says of `super` that is not asked for the base of this object: `super(Net)` is a proxy of none."""

_NO_MODULE: Final = re.compile(r"^([\w.]+) is not a Module subclass$")
_REFUSED: Final = (AssertionError, RuntimeError, TypeError, ValueError)
"""What torch raises for a layer that it cannot make."""


def is_of_code(error: BaseException | None, loaded: Loaded) -> bool:
    """Return whether an error that a constructor has raised is a fault of the file itself, with any arguments."""
    moments = moments_of(error.__traceback__) if isinstance(error, Exception) else []
    own = [each for each in moments if is_user_file(each.path)][-1:]
    if error is None or not own or own[0].path != loaded.module.__file__:
        return False
    if is_uninitialized(error, moments):
        return True
    if type(error) is NameError:
        return own[0] is moments[-1] and _is_unknown(error, own[0].path)
    if type(error) is AttributeError:
        return _lacks(error, own[0])
    if not isinstance(error, _REFUSED):
        return False
    text = text_of(error)
    is_of_base = _is_of_super(text, own[0]) or _is_of_module(own[0], moments[-1])
    return is_of_base or _is_refused(text, own[0], moments[-1], loaded)


def is_uninitialized(error: BaseException, moments: Sequence[Moment]) -> bool:
    """Return whether an error is that of a module whose constructor has not called the one of `nn.Module`."""
    if not isinstance(error, AttributeError):
        return False
    owner = kept_in(error, AttributeError, "obj")
    if owner is None:  # Torch says it by itself.
        owner = next((each.value_of("self") for each in moments[::-1] if is_user_file(each.path)), None)
    return isinstance(owner, nn.Module) and _PARTS not in vars(owner)


def may_bind(tree: ast.Module, name: str) -> bool:
    """Whether a module gives a name to something anywhere; what a star imports is there, or stood in for."""
    for node in ast.walk(tree):
        match node:
            case ast.alias(name=imported, asname=other) if name in {other, imported.partition(".")[0]}:
                return True
            case ast.Name(id=bound, ctx=ast.Store()) | ast.arg(arg=bound) if bound == name:
                return True
            case ast.FunctionDef(name=bound) | ast.ClassDef(name=bound) if bound == name:
                return True
            case ast.Call(func=ast.Name(id="globals" | "exec" | "setattr")):
                return True
            case _:
                pass
    return False


def _is_unknown(error: NameError, path: str) -> bool:
    """Whether a name is asked for that the file gives to nothing."""
    name, tree = kept_in(error, NameError, "name"), tree_of(path)
    return isinstance(name, str) and tree is not None and not may_bind(tree, name)


def _lacks(error: AttributeError, own: Moment) -> bool:
    """Whether an attribute is asked for that a package has not, or that no code of the module's classes may give it.

    What its parts have may depend on the arguments: any of them may have been handed in.
    """
    owner = kept_in(error, AttributeError, "obj")
    if isinstance(owner, ModuleType):
        # What `getattr` is asked for may be another name with other arguments.
        asked = next(iter(nodes_around(own.path, own.source.span)[::-1]), None)
        return _is_of_torch(owner.__name__) and isinstance(asked, ast.Attribute)
    if raised_within(error) is not error:
        return False  # It has a property of that name, which asks for something else.
    return owner is own.value_of("self") and is_fault(error) and not lacks_base(owner)


def _is_of_super(text: str, own: Moment) -> bool:
    """Whether `super` itself is called otherwise than it can be, as no base is."""
    return _OF_SUPER.search(text) is not None and "super" in own.source.text


def _is_of_module(own: Moment, last: Moment) -> bool:
    """Whether the constructor of `nn.Module` is given something, which takes nothing."""
    call = next(iter(nodes_around(own.path, own.source.span)[::-1]), None)
    return last.frame.f_code is nn.Module.__init__.__code__ and isinstance(call, ast.Call) and not _has_stars(call)


def _is_refused(text: str, own: Moment, last: Moment, loaded: Loaded) -> bool:
    """Whether the file calls something otherwise than it can be called, whatever its own parameters are."""
    call = next(iter(nodes_around(own.path, own.source.span)[::-1]), None)
    if not isinstance(call, ast.Call) or _has_stars(call):
        return False
    called = _meant(call.func, own)
    of_torch = _is_of_torch(getattr(called, "__module__", None))
    if not (of_torch or _is_defined_in(loaded, call)):
        return False
    if own is last and _WRONG_CALL.search(text):
        # Of None torch says that there was one argument too many: `torch.empty(n, n)`.
        return not (of_torch and is_given_none(own))
    unexpected, other = _UNEXPECTED.search(text), _NO_MODULE.match(text)
    if of_torch and unexpected is not None:
        return any(each.arg == unexpected[1] for each in call.keywords)
    if of_torch and other is not None:
        return any(_is_no_module(each, own, other[1]) for each in call.args)
    given = [*call.args, *(each.value for each in call.keywords)]
    return of_torch and isinstance(called, type) and bool(given) and not any(map(_has_names, given))


def _meant(node: ast.expr, moment: Moment) -> Any:
    """Return what a name of the module itself, or a path from one, stands for; None where that is not known."""
    match node:
        case ast.Name(id=name) if name not in moment.frame.f_locals:
            return moment.value_of(name)
        case ast.Attribute(value=value, attr=name):
            owner = _meant(value, moment)
            return vars(owner).get(name) if isinstance(owner, ModuleType) else None
        case _:
            return None


def _is_of_torch(module: Any) -> bool:
    return isinstance(module, str) and module.partition(".")[0] == "torch"


def _is_defined_in(loaded: Loaded, call: ast.Call) -> bool:
    """Whether a call is of a class or function that stands at the top of the file."""
    defined = loaded.tree.body if loaded.tree is not None else []
    names = {each.name for each in defined if isinstance(each, ast.ClassDef | ast.FunctionDef)}
    return isinstance(call.func, ast.Name) and call.func.id in names


def _is_no_module(node: ast.expr, moment: Moment, told: str) -> bool:
    """Whether an argument is a list, a class or a function by its own text, where something of a type is no module."""
    if isinstance(node, ast.List | ast.ListComp):
        return told == "list"  # Or else one of its items is none, which the arguments may have given.
    if isinstance(node, ast.Name) and node.id in moment.frame.f_locals:
        names = moment.frame.f_code.co_varnames[: moment.frame.f_code.co_argcount]
        value = moment.frame.f_locals[node.id]
        if isinstance(value, type):
            return _is_called(node, tree_of(moment.path))
        return node.id not in names and isinstance(value, list)
    return callable(_meant(node, moment))


def _is_called(node: ast.Name, tree: ast.Module | None) -> bool:
    """Whether the function in which a class is handed on by a name calls it elsewhere, for what it makes."""
    functions = [each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)] if tree is not None else []
    around = [each for each in functions if each.lineno <= node.lineno <= (each.end_lineno or 0)]
    nodes = ast.walk(around[-1]) if around else ()
    return any(isinstance(each, ast.Call) and ast.unparse(each.func) == node.id for each in nodes)


def _has_stars(call: ast.Call) -> bool:
    stars = any(isinstance(each, ast.Starred) for each in call.args)
    return stars or any(each.arg is None for each in call.keywords)


def _has_names(node: ast.expr) -> bool:
    return any(isinstance(each, ast.Name) for each in ast.walk(node))
