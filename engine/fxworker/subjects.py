"""What is traced, with what is asked of it before: its size, and what it consists of.

A trace changes both, and neither depends on the code of a `forward`. So they are known ahead of need where the model is
built ahead.
"""

from dataclasses import dataclass
from typing import Self

from torch import nn

from fxengine.exploration import Memory
from fxengine.module_snapshot import Snapshot
from fxworker.building import Built
from fxworker.sums import facts_of
from fxworker.wire import ModuleFacts


@dataclass(frozen=True, slots=True)
class Subject:
    """A model as it was when it was built.

    Attributes:
        built: The model, or a function.
        facts: What is told of it beside its graph, None for a function. The tracer may put constants into it.
        snapshot: What the model is put back to after each run.
        memory: What a trace ahead has found of it.
    """

    built: Built
    facts: ModuleFacts | None
    snapshot: Snapshot
    memory: Memory | None = None

    @classmethod
    def of(cls, built: Built) -> Self:
        """Look at a model that was not traced yet."""
        return cls(built, facts_of(built.root), Snapshot(built.root))

    @property
    def is_without_values(self) -> bool:
        """Whether it is a model that has tensors without values."""
        root = self.built.root
        return isinstance(root, nn.Module) and any(each.is_meta for each in (*root.parameters(), *root.buffers()))
