"""``CodeGen``: from a graph's nodes to the source of a function.

Code is made in steps, each of which hands data to the next: nodes become chunks of text (``body``), a user's
transformer may rewrite them, chunks become numbered lines (``lines``), and the lines become a ``PythonCode``.
Subclasses change the function's signature, its return statement, and how a caller's arguments become the graph's.
"""

import contextlib
import functools
import inspect
import os
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, ClassVar, Final

from fxengine.codegen.body import Body, framed
from fxengine.codegen.commentary import Commentary, _color_fns
from fxengine.codegen.expressions import Expressions
from fxengine.codegen.global_names import GlobalNames
from fxengine.codegen.lines import from_pieces, to_lines, to_pieces
from fxengine.codegen.python_code import PythonCode, TransformCodeFunc
from fxengine.codegen.statements import Statements
from fxengine.names import _Namespace
from fxengine.node import Argument, Node

__all__ = ["CodeGen", "_BoxedCodeGen", "_override_sym_repr"]

_WRAP: Final = "torch.fx._symbolic_trace.wrap"
"""Where generated code registers wrapped functions: with torch.fx, whose registrations the tracer reads, so that the
code says the same as torch.fx's and both retrace it alike."""
_SILENCE: Final = Commentary()


class CodeGen:
    """Generates a method ``forward`` that takes the graph's placeholders and returns its output."""

    _sym_repr: ClassVar[Callable[[Any], str]] = repr
    """Writes symbolic numbers in annotations."""

    _sound: ClassVar[bool] = True
    """Whether what this class writes around the nodes' statements is Python without doubt."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._sound = vars(cls).get("_sound", False)

    def __init__(self) -> None:
        self._body_transformer: TransformCodeFunc | None = None
        self._func_name: str = "forward"

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False) -> str:
        """Return the beginning of the function: ``gen_fn_def(['a', 'b'], '') == 'def forward(self, a, b):'``.

        Args:
            free_vars: The parameters, with annotations and default values; a missing ``self`` is put before them.
            maybe_return_annotation: The annotation of the result with its arrow, or nothing.
            expanded_def: Put each parameter on a line of its own.
        """
        if not free_vars or free_vars[0] != "self":
            free_vars.insert(0, "self")
        parameters = f"\n{self._format_multiline_args(free_vars)}" if expanded_def else ", ".join(free_vars)
        return f"def {self._func_name}({parameters}){maybe_return_annotation}:"

    def generate_output(
        self,
        output_args: Argument,
        *,
        descs: Sequence[str] | None = None,
        repr_fn: Callable[[object], str] | None = None,
    ) -> str:
        """Return the return statement, not indented.

        Args:
            output_args: What the function returns.
            descs: A comment for each part of it, which is then put on a line of its own.
            repr_fn: Writes a value; ``repr`` if None.
        """
        write = repr_fn or repr
        if descs is not None and isinstance(output_args, (list, tuple)):
            return self._format_multiline_container(output_args, descs, "return ", repr_fn=write)
        return f"return {write(output_args)}"

    def process_inputs(self, *args: Any) -> Any:
        """Return the values of the placeholders, given what a caller of the generated function passes."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """Return what the generated function returns, given the value of the output node."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Return names, with what they refer to, that the code needs beside those of the graph."""
        return []

    def _gen_python_code(
        self,
        nodes: Iterable[Node],
        root_module: str,
        namespace: _Namespace,
        *,
        verbose: bool = False,
        include_stride: bool = False,
        include_device: bool = False,
        colored: bool = False,
        expanded_def: bool = False,
        record_func: bool = False,
        additional_meta: list[str] | None = None,
    ) -> PythonCode:
        """Return the code of a function with these nodes; see ``Graph.python_code`` for the arguments."""
        commentary = _SILENCE
        if verbose or colored or _asked_for("FX_GRAPH_SHOW_META"):
            commentary = Commentary(
                verbose=verbose,
                include_stride=include_stride or _asked_for("FX_GRAPH_SHOW_STRIDE"),
                include_device=include_device or _asked_for("FX_GRAPH_SHOW_DEVICE"),
                include_meta=_asked_for("FX_GRAPH_SHOW_META"),
                colored=colored,
                additional_meta=additional_meta or (),
                sym_repr=CodeGen._sym_repr,
            )
        nodes = tuple(nodes)
        global_names = GlobalNames(namespace)
        graph = nodes[0].graph if nodes else None
        expressions = Expressions(global_names, graph, _color_fns["blue"] if colored else None)
        statements = Statements(expressions, global_names, root_module)
        body = Body(
            statements,
            commentary,
            lambda value, descs: _call(self.generate_output, value, descs=descs, repr_fn=expressions.write),
            expanded_def,
            record_func,
        )
        chunks = framed(body.chunks(nodes)) if record_func else body.chunks(nodes)
        try:
            if self._body_transformer is None:
                lines = to_lines(chunks)
            else:
                lines = from_pieces(self._body_transformer(to_pieces(chunks)))
        finally:
            expressions.names.restore()
        for name, value in self.additional_globals():
            global_names.add(name, value)
        prologue: str = _call(self.gen_fn_def, body.parameters, body.return_annotation, expanded_def=expanded_def)
        wrapping = "\n".join([f'{_WRAP}("{name}")' for name in statements.wrapped_functions])
        sound = expressions.sound and self._sound and self._body_transformer is None and self._func_name == "forward"
        code = PythonCode(
            f"\n{wrapping}\n\n{prologue}\n{lines.source()}",
            global_names.values,
            _lineno_map=dict(enumerate(lines.owners, start=prologue.count("\n") + 1)),
            _prologue_start=wrapping.count("\n") + 4,
        )
        code._nodes = nodes
        code._skipped = lines.leading()
        code._head = f"\n{wrapping}\n\n{prologue}\n" if sound else None
        return code

    def _format_multiline_args(self, args: Iterable[str]) -> str:
        return "".join([self._format_single_arg(arg) for arg in args])

    def _format_single_arg(self, arg: str) -> str:
        """Return a parameter on a line of its own, its comment after the comma."""
        parameter, _, comment = arg.partition("#")
        if "#" in arg:
            return f"    {parameter.rstrip()},  # {comment.lstrip()}\n"
        return f"    {arg},\n"

    def _format_multiline_container(
        self,
        items: Sequence[object],
        descs: Sequence[str] | None = None,
        prefix: str = "",
        repr_fn: Callable[[object], str] | None = None,
    ) -> str:
        """Return a list or tuple with each item on a line of its own, followed by its description."""
        left, right = self._get_delimiters(items)
        write = repr_fn or repr
        comments = self._get_desc_trailers(items, descs)
        lines = [f"    {write(item)},{comment}\n" for item, comment in zip(items, comments, strict=False)]
        return f"{prefix}{left}\n{''.join(lines)}{right}"

    def _get_delimiters(self, container: Sequence[object]) -> tuple[str, str]:
        return ("(", ")") if isinstance(container, tuple) else ("[", "]")

    def _get_desc_trailers(self, items: Sequence[object], descs: Sequence[str] | None) -> list[str]:
        return [""] * len(items) if descs is None else [f"  # {desc}" for desc in descs]


class _BoxedCodeGen(CodeGen):
    """Generates a function that takes its arguments as one list, which it empties, so that they can be freed early."""

    _sound = True

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False) -> str:
        """Return the beginning of the function, which takes the values of its parameters out of ``args_list``."""
        del expanded_def
        names = [var.split(":")[0].split("=")[0].strip() for var in free_vars if var != "self"]
        lines = [f"def {self._func_name}(self, args_list){maybe_return_annotation}:"]
        if names:
            lines += ["args_iter = iter(args_list)"]
            lines += [f"{name} = next(args_iter)" for name in names]
            lines += ["args_list.clear()"]
        return "\n    ".join(lines)


def _asked_for(variable: str) -> bool:
    return os.environ.get(variable) == "1"


def _call(method: Callable[..., Any], *args: Any, **optional: Any) -> Any:
    """Call ``method``, leaving out the keyword arguments that it does not know: overrides may be older than these."""
    known = _parameters(getattr(method, "__func__", method))
    return method(*args, **{name: value for name, value in optional.items() if name in known})


@functools.lru_cache(maxsize=256)
def _parameters(function: Callable[..., Any]) -> frozenset[str]:
    return frozenset(inspect.signature(function).parameters)


@contextlib.contextmanager
def _override_sym_repr(override: Callable[[Any], str]) -> Generator[None]:
    """Let ``override`` write the symbolic numbers in annotations within the ``with`` statement."""
    usual = CodeGen._sym_repr
    CodeGen._sym_repr = override
    try:
        yield
    finally:
        CodeGen._sym_repr = usual
