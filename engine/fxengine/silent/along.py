"""FX310: a softmax that is not told along which dimension.

Torch takes one by how many there are, the first of 1 or 3 and the second of any other number, and says that this will
end. With a batch of sequences that is the batch: what comes out for one of them depends on the others.
"""

from collections.abc import Iterator
from typing import Final

import torch.nn.functional as F  # noqa: N812 - torch's own name for it.
from torch import nn

from fxengine.diagnosis import TracingProblem
from fxengine.errors import ImplicitDimension
from fxengine.node import Node
from fxengine.silent.scene import Scene, shown

_FUNCTIONS: Final = frozenset({F.softmax, F.log_softmax, F.softmin})
_MODULES: Final = (nn.Softmax, nn.LogSoftmax, nn.Softmin)


def find(scene: Scene) -> Iterator[TracingProblem]:
    """The user's own calls of a softmax that have no dimension."""
    paths, root = scene.observation.user_paths, scene.observation.root
    modules = dict(root.named_modules()) if isinstance(root, nn.Module) and scene.ran.nodes["call_module"] else {}
    for node in (*scene.ran.nodes["call_function"], *scene.ran.nodes["call_module"]):
        origin = node.origin if _is_without_dimension(node, modules) else None
        if origin is None or not origin.frames or (paths is not None and origin.frames[-1].path not in paths):
            continue
        text = shown(origin.frames[-1])
        headline = (
            f"`{text}` does not say along which dimension: torch takes the first of one or three, else the second"
        )
        said = "in its constructor" if node.op == "call_module" else "in the call"
        yield scene.problem(ImplicitDimension, origin, headline, (f"say it {said}: `dim=-1` is the last one",))


def _is_without_dimension(node: Node, modules: dict[str, nn.Module]) -> bool:
    if node.op == "call_module":
        module = modules.get(str(node.target))
        return isinstance(module, _MODULES) and module.dim is None
    return node.target in _FUNCTIONS and len(node.args) == 1 and node.kwargs.get("dim") is None
