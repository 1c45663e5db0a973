"""Whether a construction gives nothing but configurations of the file, with the values that it gives them itself.

`GPT(config=GPTConfig())` says as much as `GPT()` does with all that by default: somebody has written these values, and
the model is to run with them.
"""

import ast

from torch import nn

from fxworker.choices import call_in
from fxworker.loading import Loaded
from fxworker.wire import Construct


def has_own_values(construct: Construct, loaded: Loaded) -> bool:
    """Return whether all that a construction gives are instances of classes of the file, made without arguments."""
    call = call_in(construct.expression)
    if call is None:
        return False
    given = [*call.args, *(each.value for each in call.keywords)]
    return bool(given) and all(_is_configuration(each, loaded) for each in given)


def _is_configuration(given: ast.expr, loaded: Loaded) -> bool:
    """Whether an expression makes an instance of a class of the file that is no module, without arguments."""
    if not isinstance(given, ast.Call) or not isinstance(given.func, ast.Name) or given.args or given.keywords:
        return False
    cls = loaded.namespace.get(given.func.id)
    return isinstance(cls, type) and cls.__module__ == loaded.module.__name__ and not issubclass(cls, nn.Module)
