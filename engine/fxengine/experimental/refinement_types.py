"""`Equality`: what the graph type checker learns of two sizes."""


class Equality:
    """The statement that two symbolic sizes, or expressions of them, are the same number."""

    __hash__ = None  # type: ignore[assignment] - as in torch.fx.

    def __init__(self, lhs: object, rhs: object) -> None:
        self.lhs = lhs
        self.rhs = rhs

    def __repr__(self) -> str:
        return f"{self.lhs} = {self.rhs}"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Equality) and self.lhs == other.lhs and self.rhs == other.rhs
