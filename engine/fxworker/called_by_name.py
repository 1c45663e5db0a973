"""What a text may say that names what is called: one of the models of its file."""

import ast

from fxworker.bindings import Bindings
from fxworker.surroundings import Surroundings


def note_named(call: ast.Call, names: Bindings, around: Surroundings) -> ast.expr | None:
    """Note that a text names the one of the file's models that is called: `eval(kind)(dim)`, `globals()[kind](dim)`.

    Returns:
        The text, which names nothing else then; None for another call.
    """
    match call.func:
        case (
            ast.Call(func=ast.Name(id="eval"), args=[text, *_])
            | ast.Subscript(value=ast.Call(func=ast.Name(id="globals" | "locals" | "vars"), args=[]), slice=text)
        ) if path := names.path(text := _plain(text)):
            names.use(path).note("string")
            names.use(path).literals += around.models_taking(call)
            return text
        case _:
            return None


def _plain(text: ast.expr) -> ast.expr:
    """Return what a text is written out of: `kind` of `f"{kind}"`."""
    match text:
        case ast.JoinedStr(values=[ast.FormattedValue(value=value)]) | ast.Call(func=ast.Name(id="str"), args=[value]):
            return value
        case _:
            return text
