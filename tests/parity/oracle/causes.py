"""What is at fault when code fails that was given symbolic values: they, the model's own code, or one or the other."""

import re
from collections.abc import Iterator, Sequence
from types import FrameType

from tests.parity.oracle.instructions import Moment, is_machinery, is_user, traceback_of

_NAMES_SYMBOL = re.compile(r"\b(?:Parameter)?Proxy\b|(?:'|not |type |got \(?)Attribute\b")
_ASSIGNS = re.compile(r"does(?: not|n't) support item (?:assignment|deletion)")
_WANTS_NUMBER = re.compile(
    r"as an integer|integer is required|must be an integer|indices must be integers|real number"
    r"|(?:int|float|complex)\(\) .*argument must be|__(?:round|trunc|floor|ceil)__|unsupported format string"
    r"|unsupported operand|can't multiply sequence"
)
_RAISES = frozenset({"RAISE_VARARGS", "RERAISE"})


def cause_of(error: BaseException, stack: Sequence[Moment], assumed_in: tuple[FrameType, int] | None) -> str:
    """What is at fault: `symbolic`, `own` or `unclear`.

    Args:
        error: The exception.
        stack: The frames that it has passed and those that are still running, innermost first.
        assumed_in: The user's frame and instruction in which an answer was assumed last.
    """
    for each in chain_of(error):
        inside = list(stack) if each is error else traceback_of(each.__traceback__)
        if not inside or _is_deliberate(inside, assumed_in):
            continue
        if _NAMES_SYMBOL.search(text_of(each)):
            return "symbolic"
        if is_machinery(inside[0].frame) and any(is_user(moment.frame) for moment in inside):
            return "symbolic"
    if not stack or stack[0].instruction.opname in _RAISES:
        return "own"
    return "unclear" if isinstance(error, TypeError | ValueError | RuntimeError) else "own"


def is_assignment(error: BaseException) -> bool:
    """Whether an item was to be assigned or deleted."""
    return isinstance(error, TypeError) and _ASSIGNS.search(text_of(error)) is not None


def wants_number(error: BaseException, stack: Sequence[Moment]) -> bool:
    """Whether C code wanted a number, which nothing but a number can be given for."""
    return isinstance(error, TypeError) and not is_raised(stack) and _WANTS_NUMBER.search(text_of(error)) is not None


def is_raised(stack: Sequence[Moment]) -> bool:
    """Whether a `raise` statement raised it."""
    return stack[0].instruction.opname in _RAISES


def text_of(error: BaseException) -> str:
    """An exception's text; the class may be the model's own."""
    try:
        return str(error)
    except BaseException:  # noqa: BLE001 - it is the model's code.
        return ""


def chain_of(error: BaseException | None) -> Iterator[BaseException]:
    """An exception and those that it was raised from or while handling."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _is_deliberate(stack: Sequence[Moment], assumed_in: tuple[FrameType, int] | None) -> bool:
    """Whether code raised that was not handed something it does not know: the user's, or after a condition.

    Torch's own code checks its arguments with conditions; what it raises then says what it was told.
    """
    if is_machinery(stack[0].frame) or not is_raised(stack):
        return False
    user = next((moment for moment in stack if is_user(moment.frame)), None)
    return user is None or user is stack[0] or (user.frame, user.offset) == assumed_in
