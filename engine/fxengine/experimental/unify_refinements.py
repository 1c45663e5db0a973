"""Sizes that are equal get one variable, or the number that one of them is."""

from typing import Any

from fxengine.experimental.graph_gradual_typechecker import Refine
from fxengine.experimental.refinement_types import Equality
from fxengine.experimental.unification import Var, unify
from fxengine.graph import Graph
from fxengine.graph_module import GraphModule
from fxengine.tensor_type import TensorType

__all__ = [
    "check_for_type_equality",
    "convert_eq",
    "infer_symbolic_types",
    "infer_symbolic_types_single_pass",
    "substitute_all_types",
    "substitute_solution_one_type",
    "unify_eq",
]


def infer_symbolic_types_single_pass(traced: GraphModule) -> None:
    """Give all nodes of a graph, which has been type checked, variables for unknown sizes, one for equal ones."""
    _refined(traced)


def infer_symbolic_types(traced: GraphModule) -> None:
    """Do that twice, since of sums more is known then, and give sizes as expressions where they follow from others."""
    _refined(traced)
    _refined(traced).symbolic_relations()


def _refined(traced: GraphModule) -> Refine:
    refinement = Refine(traced)
    refinement.refine()
    substitute_all_types(traced.graph, unify_eq(refinement.constraints))
    return refinement


def convert_eq(list_of_eq: list[Equality]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Return the left sides and the right sides."""
    return tuple(equality.lhs for equality in list_of_eq), tuple(equality.rhs for equality in list_of_eq)


def unify_eq(list_of_eq: list[Equality]) -> Any:
    """Return what variables stand for so that the two sides are equal; False if they cannot be."""
    return unify(*convert_eq(list_of_eq))


def substitute_solution_one_type(mapping: dict[Any, Any], t: Any) -> Any:
    """Return a type with what ``mapping`` says in place of variables."""
    match t:
        case Var():
            return mapping.get(t, t)
        case TensorType():
            return TensorType(tuple(mapping.get(size, size) for size in t.dims))
        case list():
            return [substitute_solution_one_type(mapping, part) for part in t]
        case tuple():
            return tuple(substitute_solution_one_type(mapping, part) for part in t)
        case _:
            return t


def substitute_all_types(graph: Graph, mapping: dict[Any, Any]) -> None:
    """Put what ``mapping`` says in place of variables in the types of all nodes, and of what it says again."""
    for variable, value in mapping.items():
        final = value
        while final in mapping:
            final = mapping[final]
        mapping[variable] = final
    for node in graph.nodes:
        node.type = substitute_solution_one_type(mapping, node.type)


def check_for_type_equality(g1: Graph, g2: Graph) -> bool:
    """Return whether the nodes of two graphs have the same types."""
    return all(n.type == m.type for n, m in zip(g1.nodes, g2.nodes, strict=False))
