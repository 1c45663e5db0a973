"""Code for functions whose arguments and result are nested containers, while the graph has their leaves."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch.utils import _pytree as pytree

from fxengine.codegen.code_gen import CodeGen
from fxengine.node import Argument

if TYPE_CHECKING:
    from fxengine.graph_module import GraphModule


__all__ = ["_ExportCodeGen", "_PyTreeCodeGen", "_PyTreeInfo"]


class _PyTreeInfo(NamedTuple):
    """How a function's arguments and result are nested."""

    orig_args: list[str]
    """The parameters of the original function."""
    in_spec: pytree.TreeSpec
    """The structure of the arguments: of the positional ones, or of a pair with a dict of the keyword arguments."""
    out_spec: pytree.TreeSpec | None
    """The structure of the result, if that is not the output node's value itself."""


class _PyTreeCodeGen(CodeGen):
    """Generates a function that takes its arguments apart at the beginning and puts its result together at the end."""

    _sound = True

    def __init__(self, pytree_info: _PyTreeInfo | None) -> None:
        super().__init__()
        self.pytree_info: Any = pytree_info

    def process_inputs(self, *inputs: Any) -> Any:
        """Return the leaves of the arguments."""
        return pytree.arg_tree_leaves(*inputs)

    def process_outputs(self, outputs: Any) -> Any:
        """Return the result put together from its leaves."""
        if self.pytree_info is None or self.pytree_info.out_spec is None:
            return outputs
        leaves = outputs if isinstance(outputs, (list, tuple)) else [outputs]
        return pytree.tree_unflatten(leaves, self.pytree_info.out_spec)

    def gen_fn_def(self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False) -> str:
        """Return the beginning of a function with the original parameters, which binds the leaves of their values."""
        if self.pytree_info is None:
            return super().gen_fn_def(free_vars, maybe_return_annotation, expanded_def=expanded_def)
        parameters = self.pytree_info.orig_args
        if parameters and parameters[0] == "self":
            free_vars.insert(0, "self")
        definition = super().gen_fn_def(list(parameters), maybe_return_annotation, expanded_def=expanded_def)
        return definition + self.gen_var_bindings(parameters, free_vars, expanded_def) if free_vars else definition

    def gen_var_bindings(self, fn_args: list[str], free_vars: list[str], expanded_def: bool) -> str:
        """Return the statement that binds the leaves, after one that annotates those that have annotations.

        Python does not allow annotations in an assignment of several names, hence two.
        """
        names = [var.split(":")[0].split("#")[0] for var in free_vars]
        annotations = self._format_annotations(free_vars, expanded_def)
        arguments = self._flattened(fn_args)
        return f"{annotations}\n    {', '.join(names)}, = fx_pytree.tree_flatten_spec({arguments}, self._in_spec)"

    def generate_output(
        self,
        output_args: Argument,
        *,
        descs: Sequence[str] | None = None,
        repr_fn: Callable[[object], str] | None = None,
    ) -> str:
        """Return the return statement, which puts the result together."""
        if not self.pytree_info or not self.pytree_info.out_spec:
            return super().generate_output(output_args, descs=descs, repr_fn=repr_fn)
        write = repr_fn or repr
        if descs is not None and isinstance(output_args, (list, tuple)):
            leaves = self._format_multiline_container(
                output_args, descs, "return pytree.tree_unflatten(", repr_fn=write
            )
            return f"{leaves}, self._out_spec)"
        return f"return pytree.tree_unflatten({write(output_args)}, self._out_spec)"

    def _flattened(self, parameters: list[str]) -> str:
        """Return the expression of the containers that are taken apart."""
        spec = self.pytree_info.in_spec
        with_keywords = (
            spec.type is tuple
            and spec.num_children == 2
            and _child(spec, 0).type is tuple
            and _child(spec, 1).type is dict
        )
        if not with_keywords:
            return f"[{', '.join(parameters)}]"
        count = _child(spec, 0).num_children
        original = self.pytree_info.orig_args
        keywords = [f"'{key}':{name}" for key, name in zip(_child(spec, 1).context, original[count:], strict=False)]
        return f"([{', '.join(original[:count])}], {{{', '.join(keywords)}}})"

    def _format_annotations(self, free_vars: list[str], expanded_def: bool) -> str:
        annotated = [var for var in free_vars if ":" in var]
        if not annotated:
            return ""
        if expanded_def:
            return "\n    " + "\n    ".join(annotated)
        return "\n    " + "".join([f"{var}; " for var in annotated]) + "\n"


class _ExportCodeGen(_PyTreeCodeGen):
    """Generates a function that reorders its leaves with graph modules before and after the graph proper."""

    def __init__(
        self,
        pytree_info: _PyTreeInfo,
        in_shuffle_graph: "GraphModule",
        out_shuffle_graph: "GraphModule",
        tree_leaf_names: list[str],
        root: torch.nn.Module | None,
    ) -> None:
        super().__init__(pytree_info)
        self.in_shuffle_graph = in_shuffle_graph
        self.out_shuffle_graph = out_shuffle_graph
        self.tree_leaf_names = tree_leaf_names
        self.root = root
        self.flat_args: tuple[Any, ...] = ()

    def process_inputs(self, *inputs: Any) -> Any:
        """Return the reordered leaves of the arguments."""
        leaves = super().process_inputs(*inputs)
        self.flat_args = tuple(leaves) if self.root is None else (self.root, *leaves)
        return self.in_shuffle_graph(*self.flat_args)

    def process_outputs(self, outputs: Any) -> Any:
        """Return the result put together from its reordered leaves."""
        leaves = self.out_shuffle_graph(*self.flat_args, *outputs)
        self.flat_args = ()
        return super().process_outputs(leaves)

    def gen_var_bindings(self, fn_args: list[str], free_vars: list[str], expanded_def: bool) -> str:
        """Return the statements that bind the leaves and reorder them."""
        del expanded_def
        names = [var.split(":")[0].split("#")[0] for var in free_vars]
        arguments = ", ".join(fn_args if self.root is None else ["self", *fn_args])
        leaves = ", ".join(self.tree_leaf_names)
        return (
            f"\n    {leaves}, = pytree.tree_leaves(({arguments},))"
            f"\n    {', '.join(names)}, = self._in_shuffle_graph({leaves})"
        )

    def generate_output(self, output_args: Argument, *args: Any, **kwargs: Any) -> str:
        """Return the return statement, which reorders the leaves of the result and puts it together."""
        del args, kwargs
        if not isinstance(output_args, (list, tuple)):
            raise TypeError(f"Expected list or tuple for output_args, got {type(output_args)}")
        leaves = ", ".join([*self.tree_leaf_names, *map(str, output_args)])
        return f"return pytree.tree_unflatten(self._out_shuffle_graph({leaves}), self._out_spec)"


def _child(spec: pytree.TreeSpec, index: int) -> pytree.TreeSpec:
    """Return a child of ``spec``: a method in newer torch, an attribute before."""
    any_spec: Any = spec
    return any_spec.child(index) if hasattr(any_spec, "child") else any_spec.children_specs[index]
