"""What a text may say that names what is called: one of the models of its file."""

import ast

from fxworker.bindings import Bindings
from fxworker.surroundings import Surroundings


def note_named(call: ast.Call, names: Bindings, around: Surroundings) -> None:
    """Note that a text names the one of the file's models that is called: `eval(kind)(dim)`, `globals()[kind](dim)`."""
    match call.func:
        case (
            ast.Call(func=ast.Name(id="eval"), args=[text, *_])
            | ast.Subscript(value=ast.Call(func=ast.Name(id="globals" | "locals" | "vars"), args=[]), slice=text)
        ) if names.path(text):
            names.use(names.path(text)).note("string")
            names.use(names.path(text)).literals += around.models_taking(call)
        case _:
            pass
