"""Functional ATen operators turned back into ones that work in place, where nobody can tell the difference.

``b = aten.add(a, c)`` becomes ``aten.add_(a, c)`` if neither ``a`` nor anything that shares its memory is used later,
``a`` is no input, and the result fits into it. What functionalization makes of a change of a view, ``y =
aten.select_scatter(a, b, ...)``, becomes a copy into that view, or disappears if the view was changed in place anyway.
"""

import enum
import operator
from collections.abc import Callable, Iterator
from typing import Any, Final

import torch
from torch._ops import OpOverload
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils import _pytree as pytree

from fxengine.graph_module import GraphModule
from fxengine.interpreter import Interpreter
from fxengine.node import Argument, Node, Target
from fxengine.operator_schemas import overloads_of

__all__ = ["_is_view_op", "reinplace"]

_VIEW_INVERSE_MAP: Final[dict[OpOverload, OpOverload]] = {
    torch.ops.aten.diagonal_scatter.default: torch.ops.aten.diagonal.default,
    torch.ops.aten.select_scatter.default: torch.ops.aten.select.int,
    torch.ops.aten.slice_scatter.default: torch.ops.aten.slice.Tensor,
    torch.ops.aten.as_strided_scatter.default: torch.ops.aten.as_strided.default,
}
"""The view that each operator writes into."""


_overlap_of: Final = torch._debug_has_internal_overlap  # pyright: ignore[reportPrivateImportUsage] - no other name.
"""Whether a tensor overlaps with itself: 1 if it does, 0 if not, 2 if that is not known."""


class _ViewType(enum.Enum):
    """What an operator's result shares with its first argument."""

    NonView = 0
    SingleOutputView = 1
    MultiOutputView = 2


def _is_view_op(tgt: object) -> bool | None:
    """Return whether the operator's first argument shares memory with its result; None if that is no question."""
    if not isinstance(tgt, OpOverload) or not tgt._schema.arguments:
        return None
    alias = tgt._schema.arguments[0].alias_info
    return alias is not None and not alias.is_write


def _get_view_type(tgt: object) -> _ViewType:
    alias = tgt._schema.arguments[0].alias_info if isinstance(tgt, OpOverload) and _is_view_op(tgt) else None
    if alias is None:
        return _ViewType.NonView
    several = "*" in alias.after_set
    return _ViewType.MultiOutputView if several else _ViewType.SingleOutputView


class _FunctionalizationMetadataProp(Interpreter):
    """Runs a graph on fake tensors, and notes in ``meta`` what it learns of each node.

    ``fake_result`` is the result, ``node_idx`` the node's place, ``view_of`` the node whose memory a view shows.
    """

    multi_output_view_nodes: dict[Node, Node]
    node_counter: int
    mode: FakeTensorMode

    def propagate(self, *args: object) -> Any:
        """Run the graph on fake counterparts of ``args`` and return the result."""
        self.multi_output_view_nodes = {}
        self.node_counter = -1
        self.mode = FakeTensorMode()
        with self.mode:
            return self.run(*map(self._fake, args))

    def _fake(self, value: Any) -> Any:
        return self.mode.from_tensor(value) if isinstance(value, torch.Tensor) else value

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Any]) -> Any:
        """Return the fake counterpart of an attribute."""
        return self._fake(super().get_attr(target, args, kwargs))

    def run_node(self, n: Node) -> Any:
        """Run a node and note what it shows."""
        self.node_counter += 1
        result = super().run_node(n)
        n.meta["fake_result"] = result
        n.meta["node_idx"] = self.node_counter
        base = self._base(n) if n.op == "call_function" else None
        if base is not None:
            n.meta["view_of"] = base
            assert _storage(result) == _storage(base.meta["fake_result"]), "view_storage != base_storage"
        return result

    def _base(self, node: Node) -> Node | None:
        """The node that a call shows a view of; what is shown in pieces is noted for those who take the pieces."""
        source = node.args[0] if node.args else None
        if not isinstance(source, Node):
            return None
        if node.target is operator.getitem:
            return self.multi_output_view_nodes.get(source)
        kind = _get_view_type(node.target)
        if kind is _ViewType.MultiOutputView:
            self.multi_output_view_nodes[node] = source
        return source if kind is _ViewType.SingleOutputView else None


def reinplace(gm: GraphModule, *sample_args: Any) -> GraphModule:
    """Let operators of ``gm`` work in place where that cannot be told from outside; return ``gm``.

    Args:
        gm: A graph module of functional ATen operators, as ``make_fx(functionalize(f))`` makes them; it is changed.
        *sample_args: Its inputs, whose shapes and shared memory count and not their values.
    """
    _FunctionalizationMetadataProp(gm).propagate(*sample_args)
    pass_ = _Reinplacing(gm)
    for node in gm.graph.nodes:
        if _takes_tensor_first(node):
            pass_.try_in_place(node)
    for node in pass_.superfluous:
        gm.graph.erase_node(node)
    gm.recompile()
    return gm


class _Reinplacing:
    """One run of the pass.

    Attributes:
        sharing: The nodes that share a storage.
        fixed: The storages of what is not ours: inputs and attributes.
        superfluous: Scatters that have been made up for, to be erased in the end.
    """

    def __init__(self, gm: GraphModule) -> None:
        self.graph = gm.graph
        self.sharing: dict[StorageWeakRef, set[Node]] = {}
        self.fixed: set[StorageWeakRef] = set()
        self.superfluous: dict[Node, None] = {}
        for node in gm.graph.nodes:
            for storage in _storages(node):
                self.sharing.setdefault(storage, set()).add(node)
                if node.op in {"placeholder", "get_attr"}:
                    self.fixed.add(storage)

    def try_in_place(self, node: Node) -> None:
        """Let a call work in place if that is safe, and its users use its first argument instead of it."""
        changed = node.args[0]
        assert isinstance(changed, Node)
        if not _fits(node, changed) and node.target != torch.ops.aten.resize.default:
            return
        storage = _storage(changed.meta["fake_result"])
        if storage in self.fixed or sum(arg is changed for arg in node.args) > 1:
            return
        aliases = self.sharing[storage]
        later = _get_all_later_node_usages(aliases, node.meta["node_idx"])
        undone = _get_view_inverse_node_usages(later, aliases)
        if later.keys() - undone.keys() or not self._work_in_place(node, changed):
            return
        self._join(storage, _storage(node.meta["fake_result"]))
        self.superfluous.update(undone)
        for replaced in (node, *undone):
            self._use_first_argument(replaced, node.meta["node_idx"])

    def _work_in_place(self, node: Node, changed: Node) -> bool:
        """Let a call change its first argument; return whether there is a way."""
        view = _VIEW_INVERSE_MAP.get(node.target) if isinstance(node.target, OpOverload) else None
        if view is not None and node not in self.superfluous:
            with self.graph.inserting_before(node):
                part = self.graph.call_function(view, (changed, *node.args[2:]), dict(node.kwargs))
                self.graph.call_function(torch.ops.aten.copy_.default, (part, node.args[1]))
            self.superfluous[node] = None
            return True
        inplace = _maybe_get_inplace_op(node.target)
        if inplace is None:
            return False
        node.target = inplace
        return True

    def _use_first_argument(self, old: Node, place: int) -> None:
        """Let the users of a node, those after a place, use the node's first argument instead."""
        new = old.args[0]
        assert isinstance(new, Node), f"Expected Node, got {type(new)}"
        for user in [each for each in old.users if each.meta["node_idx"] > place]:
            user.replace_input_with(old, new)
            shown = _storages(user)
            if len(shown) == 1 and shown == _storages(old):
                # A view of the old node, and now one of the new.
                (theirs,) = shown
                (ours,) = _storages(new)
                self._join(theirs, ours)

    def _join(self, first: StorageWeakRef, second: StorageWeakRef) -> None:
        """From now on two storages are one: what shares the one shares the other."""
        both = self.sharing.setdefault(first, set()) | self.sharing.setdefault(second, set())
        self.sharing[first] |= both
        self.sharing[second] |= both


def _takes_tensor_first(node: Node) -> bool:
    if node.op != "call_function" or not isinstance(node.target, OpOverload) or not node.args:
        return False
    arguments = node.target._schema.arguments
    return bool(arguments) and type(arguments[0].type) is torch.TensorType and isinstance(node.args[0], Node)


def _fits(node: Node, changed: Node) -> bool:
    """Whether the result has the size and dtype of what is to be changed, which does not overlap with itself."""
    before = pytree.tree_leaves(changed.meta["fake_result"])
    after = pytree.tree_leaves(node.meta["fake_result"])
    return len(before) != len(after) or all(
        old.numel() == new.numel() and old.dtype == new.dtype and _overlap_of(old) != 1
        for old, new in zip(before, after, strict=True)
    )


def _get_all_later_node_usages(aliases: set[Node], place: int) -> dict[Node, None]:
    """The users of nodes that come after a place, in order; views count only by what uses them."""
    users = {
        user
        for alias in aliases
        for user in alias.users
        if user.meta.get("node_idx", -1) > place
        and not (user in aliases and (isinstance(user.target, OpOverload) or user.target is operator.getitem))
    }
    return dict.fromkeys(sorted(users, key=lambda user: user.meta["node_idx"]))


def _get_view_inverse_node_usages(later: dict[Node, None], aliases: set[Node]) -> dict[Node, None]:
    """Those scatters among later users that write a view back to where it was taken from."""
    return dict.fromkeys(
        node
        for node in later
        if isinstance(node.target, OpOverload)
        and node.target in _VIEW_INVERSE_MAP
        and any(_writes_back(node, alias) for alias in aliases if "view_of" in alias.meta)
    )


def _writes_back(scatter: Node, alias: Node) -> bool:
    """Whether a scatter writes to the place that ``alias`` shows: the view taken again would be the same."""
    assert isinstance(scatter.target, OpOverload)
    base = scatter.args[0]
    assert isinstance(base, Node), f"Expected Node for base, got {type(base)}"
    own_base = alias.meta["view_of"].meta["fake_result"]
    view: Callable[..., Any] = _VIEW_INVERSE_MAP[scatter.target]
    try:
        shown = view(own_base, *scatter.args[2:], **scatter.kwargs)
    except Exception:  # noqa: BLE001 - an operator refuses arguments that are not meant for this tensor as it likes.
        return False
    return _same_layout(own_base, base.meta["fake_result"]) and _same_layout(shown, alias.meta["fake_result"])


def _same_layout(first: FakeTensor, second: FakeTensor) -> bool:
    return (
        first.size() == second.size()
        and first.stride() == second.stride()
        and first.storage_offset() == second.storage_offset()
    )


def _maybe_get_inplace_op(op: object) -> OpOverload | None:
    """Return the operator that does the same in place, if there is one and ``op`` makes no view."""
    if not isinstance(op, OpOverload) or _is_view_op(op):
        return None
    namespace = getattr(torch.ops, op.namespace)
    packet = getattr(namespace, f"{op.overloadpacket.__name__}_", None)
    if packet is None:
        return None
    matching = [overload for overload in overloads_of(packet) if _schemas_match(op._schema, overload._schema)]
    assert len(matching) <= 1, f"Expected exactly 1 matching inplace overload, got {len(matching)}"
    return matching[0] if matching else None


def _schemas_match(functional_schema: Any, inplace_schema: Any) -> bool:
    """Return whether two operators have the same name, but for the line at its end, and the same arguments."""
    first, *others = inplace_schema.arguments
    assert first.alias_info is not None, "First argument of inplace op must be mutable"
    assert first.alias_info.is_write, "First argument of inplace op must be mutable"
    assert all(argument.alias_info is None for argument in others), "Remaining arguments must not be mutable"
    types = [[argument.type for argument in schema.arguments] for schema in (functional_schema, inplace_schema)]
    return inplace_schema.name == f"{functional_schema.name}_" and types[0] == types[1]


def _storages(node: Node) -> set[StorageWeakRef]:
    """The storages of the tensors that a node makes."""
    return set(_each_storage(node.meta.get("fake_result")))


def _each_storage(value: Any) -> Iterator[StorageWeakRef]:
    for leaf in pytree.tree_leaves(value):
        if isinstance(leaf, FakeTensor):
            yield _storage(leaf)


def _storage(tensor: torch.Tensor) -> StorageWeakRef:
    return StorageWeakRef(tensor._typed_storage())
