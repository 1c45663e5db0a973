"""What a capture takes for given before it begins: where one has shown that it is otherwise, there is another one."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from torch import Tensor

__all__ = ["Premises"]


@dataclass(frozen=True, slots=True)
class Premises:
    """What a capture starts from.

    Attributes:
        may_load: Whether torch may load its compiler.
        compiling: Whether code that asks for it is told that it is being compiled.
        known: The inputs, as bits, whose numbers are taken for known.
        variable: The buffers by name that each run changes, so that they are no constants.
        looks_after: Whether each call that is carried out is checked for having drawn random numbers.
    """

    may_load: bool
    compiling: bool = True
    known: int = 0
    variable: Mapping[str, Tensor] = field(default_factory=dict)
    looks_after: bool = False
