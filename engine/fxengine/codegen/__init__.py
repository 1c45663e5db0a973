"""From a graph to Python source: nodes become statements, statements lines, lines a function with its globals."""

from fxengine.codegen.code_gen import CodeGen, _BoxedCodeGen, _override_sym_repr
from fxengine.codegen.python_code import PythonCode, TransformCodeFunc, node_lines
from fxengine.codegen.pytree import _ExportCodeGen, _PyTreeCodeGen, _PyTreeInfo

__all__ = [
    "CodeGen",
    "PythonCode",
    "TransformCodeFunc",
    "_BoxedCodeGen",
    "_ExportCodeGen",
    "_PyTreeCodeGen",
    "_PyTreeInfo",
    "_override_sym_repr",
    "node_lines",
]
