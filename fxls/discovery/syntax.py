"""Reading a file's syntax: parsing that cannot fail, spans of nodes, parameters, and the code inside docstrings."""

import ast
import re
import textwrap
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final, TypeAlias, TypeVar

from fxls.discovery.index import Function, Parameter, ParameterKind
from fxls.discovery.parsing import ensure_parses, parsed
from fxls.text.scanning import byte_length
from fxworker.texts import program_of
from fxworker.wire import Location, Problem, Span

FunctionNode: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

_Read = TypeVar("_Read", ast.Module, None)

_FENCE: Final = re.compile(r"^[ \t]*```(?:py|python|pycon)?[ \t]*\n(.*?)^[ \t]*```", re.MULTILINE | re.DOTALL)

_MARGIN: Final = re.compile(r"\n([ \t]*)(?=\S|\Z)")
_HEADED: Final = re.compile(
    r"^(?P<margin>[ \t]*)"
    r"(?:(?:examples?|usage)[ \t]*:{1,2}|[^\n]*(?<!:)::|\.\.[ \t]+(?:code|code-block|sourcecode)::[ \t]*\w*)[ \t]*\n"
    r"(?P<block>(?:[ \t]*\n|(?P=margin)[ \t]+\S[^\n]*(?:\n|$))+)",
    re.MULTILINE | re.IGNORECASE,
)
"""What a line announces, and is indented more than it is: an example, or what reStructuredText shows as it is."""


def parse(path: str, text: str) -> ast.Module | Problem:
    """Return the syntax tree of a text, or what is wrong with it."""
    return _read(path, text, parsed)


def is_program(text: str) -> bool:
    """Whether a text parses, as far as that is told fast of one that was edited since somebody asked."""
    return not isinstance(_read("", text, ensure_parses), Problem)


def _read(path: str, text: str, read: Callable[[str], _Read]) -> _Read | Problem:
    """Return what is made of a text, or what is wrong with it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return _twice(program_of(text.removeprefix("\ufeff")), read)
        except SyntaxError as error:
            return _syntax_problem(path, f"{type(error).__name__}: {error.msg}", _error_span(error))
        except (ValueError, RecursionError, MemoryError, OverflowError) as error:
            return _syntax_problem(path, f"{type(error).__name__}: {error}", Span(1, 0, 1, 0))


def _twice(text: str, read: Callable[[str], _Read]) -> _Read:
    """Return what is made of a text; once more where CPython 3.11 took a collection in between for its own fault."""
    try:
        return read(text)
    except SystemError:  # "AST constructor recursion depth mismatch": something else was parsed while this was.
        return read(text)


def span_of(node: ast.expr | ast.stmt | ast.arg | ast.keyword) -> Span:
    """Return where a node stands."""
    end_line = node.lineno if node.end_lineno is None else node.end_lineno
    return Span(node.lineno, node.col_offset, end_line, node.end_col_offset or 0)


def first_line(node: ast.stmt) -> int:
    """Return the line that a statement begins on, that of its first decorator if it has one."""
    return min((each.lineno for each in getattr(node, "decorator_list", ())), default=node.lineno)


def contains(span: Span, point: tuple[int, int]) -> bool:
    """Whether a point lies in a span or at its end."""
    return (span.line, span.column) <= point <= (span.end_line, span.end_column)


def name_span(node: FunctionNode | ast.ClassDef, lines: list[str]) -> Span:
    """Return the span of the name in a definition, found behind its keyword; `lines` are the file's."""
    line = lines[node.lineno - 1] if node.lineno <= len(lines) else ""
    keyword = r"class\s+" if isinstance(node, ast.ClassDef) else r"(?:async\s+)?def\s+"
    raw = line.encode("utf-8", "surrogatepass")
    match = re.compile(keyword.encode()).match(raw, node.col_offset)
    start = match.end() if match is not None else node.col_offset
    return Span(node.lineno, start, node.lineno, start + len(node.name.encode()))


def function_of(node: FunctionNode, lines: list[str], *, method: bool) -> Function:
    """Return a definition's facts; a method's first parameter is left out unless it is static."""
    static = any(isinstance(each, ast.Name) and each.id == "staticmethod" for each in node.decorator_list)
    parameters = tuple(_parameters(node.args))
    if method and not static and parameters and parameters[0].kind == "positional":
        parameters = parameters[1:]
    return Function(node.name, name_span(node, lines), span_of(node), parameters)


def dotted(node: ast.expr) -> str:
    """Return `a.b.c` for a name or a chain of attributes, "" for anything else."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    return ".".join([node.id, *reversed(parts)])


def is_main_guard(statement: ast.stmt) -> bool:
    """Whether a statement is `if __name__ == "__main__":`."""
    if not isinstance(statement, ast.If) or not isinstance(statement.test, ast.Compare):
        return False
    sides = [statement.test.left, *statement.test.comparators]
    has_name = any(isinstance(side, ast.Name) and side.id == "__name__" for side in sides)
    return has_name and any(isinstance(side, ast.Constant) and side.value == "__main__" for side in sides)


def example_code(docstring: str, first_line: int) -> Iterator[list[ast.stmt]]:
    """Yield the code in a docstring: doctest prompts, fenced blocks of Markdown, and what is indented under a heading.

    The statements have the lines of the file; their columns are those inside the example.
    """
    if ">>>" in docstring:
        yield _prompted(docstring, first_line)
    if "```" in docstring:
        for match in _FENCE.finditer(docstring):
            yield _parsed_at(textwrap.dedent(match.group(1)), _line_at(docstring, match.start(1), first_line))
    if "(" in docstring and ":" in docstring:
        margin = min((len(each[1]) for each in _MARGIN.finditer(docstring)), default=0)
        docstring = " " * margin + docstring  # As the quotes stand before its first line.
        for match in _HEADED.finditer(docstring):
            if ">>>" not in match["block"] and "```" not in match["block"]:
                yield from _indented(match["block"], _line_at(docstring, match.start("block"), first_line))


def _line_at(docstring: str, place: int, first_line: int) -> int:
    return first_line + docstring.count("\n", 0, place)


def _indented(block: str, line: int) -> Iterator[list[ast.stmt]]:
    """Yield the statements of an indented block, or of its paragraphs that are code where not all of it is."""
    text = textwrap.dedent(block)
    if whole := _parsed_at(text, line):
        yield whole
        return
    for paragraph in re.finditer(r"(?:^[^\n]*\S[^\n]*(?:\n|$))+", text, re.MULTILINE):
        yield _parsed_at(textwrap.dedent(paragraph[0]), _line_at(text, paragraph.start(), line))


def docstring_of(node: ast.Module | ast.ClassDef | FunctionNode) -> tuple[str, int]:
    """Return a definition's docstring as it is written, and its first line; "" where there is none."""
    first = node.body[0] if node.body else None
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and isinstance(first.value.value, str):
        return first.value.value, first.lineno
    return "", 0


def _prompted(docstring: str, first_line: int) -> list[ast.stmt]:
    """Return the statements behind doctest prompts; those that do not parse are left out."""
    chunks: list[tuple[int, list[str]]] = []
    for row, line in enumerate(docstring.split("\n")):
        prompt, code = line.strip()[:3], line.strip()[4:]
        if prompt == ">>>":
            chunks.append((first_line + row, [code]))
        elif prompt == "..." and chunks:
            chunks[-1][1].append(code)
    return [statement for start, code in chunks for statement in _parsed_at("\n".join(code), start)]


def _parsed_at(code: str, line: int) -> list[ast.stmt]:
    tree = parse("", code)
    if not isinstance(tree, ast.Module):
        return []
    ast.increment_lineno(tree, line - 1)
    return tree.body


def _parameters(arguments: ast.arguments) -> Iterator[Parameter]:
    positional = [*arguments.posonlyargs, *arguments.args]
    defaults = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    for argument, default in zip(positional, defaults, strict=True):
        yield _parameter(argument, default, "positional")
    if arguments.vararg is not None:
        yield _parameter(arguments.vararg, None, "arguments")
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        yield _parameter(argument, default, "keyword")
    if arguments.kwarg is not None:
        yield _parameter(arguments.kwarg, None, "keywords")


def _parameter(argument: ast.arg, default: ast.expr | None, kind: ParameterKind) -> Parameter:
    return Parameter(
        name=argument.arg,
        span=Span(
            argument.lineno, argument.col_offset, argument.lineno, argument.col_offset + byte_length(argument.arg)
        ),
        annotation="" if argument.annotation is None else ast.unparse(argument.annotation),
        default="" if default is None else ast.unparse(default),
        kind=kind,
    )


def _syntax_problem(path: str, message: str, span: Span) -> Problem:
    return Problem(
        code="FX101",
        severity="error",
        message=f"the file cannot be imported: {message}",
        location=Location(path, span),
        original=message,
        hint="Until the file parses again, the answers of its last version that did are shown.",
    )


def _error_span(error: SyntaxError) -> Span:
    """Return what a syntax error is about: the part that the parser names, the whole line if it is its indentation."""
    line, text = error.lineno or 1, error.text or ""
    if isinstance(error, IndentationError) and text.strip():
        return Span(line, byte_length(text) - byte_length(text.lstrip()), line, byte_length(text.rstrip()))
    column = _byte_column(text, (error.offset or 1) - 1)
    end_line, end_column = line, column + 1
    if error.end_lineno is not None and error.end_offset is not None and error.end_offset > 0:
        end_line = error.end_lineno
        end_column = _byte_column(text, error.end_offset - 1) if end_line == line else 0
    return Span(line, column, *max((line, column), (end_line, end_column)))


def _byte_column(line: str, characters: int) -> int:
    return byte_length(line[: max(characters, 0)])


def items_of(node: ast.Call | ast.Dict) -> dict[str, ast.expr]:
    """Return the items of a dictionary that is written out, with a literal or with `dict`; none where not all are."""
    if isinstance(node, ast.Dict):
        keys = [each.value if isinstance(each, ast.Constant) else None for each in node.keys]
        return (
            {str(key): value for key, value in zip(keys, node.values, strict=True)} if all(map(_is_name, keys)) else {}
        )
    if dotted(node.func) != "dict" or node.args or any(each.arg is None for each in node.keywords):
        return {}
    return {each.arg: each.value for each in node.keywords if each.arg is not None}


def _is_name(key: object) -> bool:
    return isinstance(key, str) and key.isidentifier()


def walk_but(node: ast.AST, kind: type[ast.AST]) -> Iterator[ast.AST]:
    """Yield a node and all in it, in the order of `ast.walk`, but nothing of what is in those of a kind."""
    waiting = deque([node])
    while waiting:
        each = waiting.popleft()
        yield each
        if not isinstance(each, kind):
            waiting.extend(ast.iter_child_nodes(each))
