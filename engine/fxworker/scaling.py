"""A model built once more with other numbers, to see whether sizes that do not go together ever would.

Numbers that were made up for a constructor may be what is wrong with a model. Each of them is multiplied by a prime of
its own: sizes that keep their ratio then follow from the same of them, or from none, and differ whatever these are.
Two sizes that are the same may be so by chance, whoever has written them: then they follow from different numbers.
"""

import ast
from collections.abc import Iterator, Sequence
from itertools import chain, combinations
from typing import Final, TypeGuard

from fxengine.capturing.dimensions import Dimension, of_other_layers
from fxengine.inputs.disagreements import differ_alike
from fxworker.building import Built, built_as, class_of
from fxworker.choices import LEAST_SIZE, call_in, parameters_of
from fxworker.loading import Loaded
from fxworker.stock import is_stand_in
from fxworker.wire import Construct, TraceTarget

_PRIMES: Final = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41, 43, 47, 53, 59, 61, 67, 71, 73, 79, 83, 89)
"""What the numbers are multiplied by; with more of them a model is not built."""

_MOST_OF_ALL: Final = 8
"""With more numbers than that, none is changed by itself; of those that are all multiplied, the ones that may be sizes
alone are: how many layers there are stays so.
"""

_FACTORS: Final = (3, 2)
"""What a number is multiplied by that is changed by itself, the first with which the model can be built."""

_MOST_PARTS: Final = 4
"""With more parts of what is joined, some of them may be as long as is wanted by chance."""


def differ_with_others(sizes: tuple[Dimension, ...], construct: Construct, target: TraceTarget, loaded: Loaded) -> bool:
    """Return whether two sizes that do not go together differ with other numbers than those of a construction, too.

    They keep their distance or ratio, or one is that of what is joined and the other that of only some parts of it.
    """
    others = _in_others(sizes, construct, target, loaded)
    made, wanted = sizes
    met = made.size, wanted.size
    if made.size != wanted.size and others and all(_differ_so(met, each) for each in others):
        return True
    is_known = len(others) == 1 and len(others[0]) == len(sizes)
    parts = _of_others(made.parts, _multiplied(construct.expression), target, loaded) if is_known else ()
    return bool(parts) and _lacks_parts(
        tuple(zip((each.size for each in made.parts), parts, strict=False)), (wanted.size, others[0][1])
    )


def _in_others(
    sizes: tuple[Dimension, ...], construct: Construct, target: TraceTarget, loaded: Loaded
) -> list[tuple[int, ...]]:
    """Return what sizes are with other numbers: with all of them at once, or with each, if no model is made of all."""
    others = _of_others(sizes, _multiplied(construct.expression), target, loaded)
    if others:
        return [others]
    built = (each for _, _, each in with_each_other(construct, target, loaded))
    return [of_other_layers(sizes, each.root) if each is not None else () for each in built]


def _differ_so(met: tuple[int, int], others: tuple[int, ...]) -> bool:
    """Whether two other sizes are known, and differ as two that do not go together."""
    return len(others) == len(met) and differ_alike(met, others)


def _lacks_parts(parts: Sequence[tuple[int, int]], wanted: tuple[int, int]) -> bool:
    """Whether some of the parts of what is joined, and not all, are as long together as is wanted, in both models."""
    counts = range(1, len(parts)) if len(parts) <= _MOST_PARTS else ()
    several = chain.from_iterable(combinations(parts, count) for count in counts)
    return any(tuple(map(sum, zip(*each, strict=True))) == wanted for each in several)


def is_outgrown(made: Dimension, wanted: Dimension) -> bool:
    """Return whether layers alone make as much of what is joined as is wanted, and something else is joined to it."""
    parts = [each for each in made.parts if each.of_layer]
    return len(parts) < len(made.parts) and sum(each.size for each in parts) >= wanted.size


def agree_with_others(sizes: tuple[Dimension, ...], construct: Construct, target: TraceTarget, loaded: Loaded) -> bool:
    """Return whether two sizes that are the same are so with other numbers than those of a construction, too.

    The numbers are those that are given, and those that are not, as they are the ones by default.
    """
    cls = class_of(target, loaded)
    given = construct.expression if cls is None else _with_defaults(construct.expression, cls, sizes[0].size)
    others = _of_others(sizes, _multiplied(given, sizes[0].size), target, loaded) if given else ()
    return len(others) == 2 and others[0] == others[1] != sizes[0].size


def vary_with_others(sizes: tuple[Dimension, ...], construct: Construct, target: TraceTarget, loaded: Loaded) -> bool:
    """Return whether two sizes that do not go together are both other ones with other numbers than a construction's."""
    others = [each for each in _in_others(sizes, construct, target, loaded) if len(each) == len(sizes)]
    return all(any(each.size != other[index] for other in others) for index, each in enumerate(sizes))


def is_tied_to_default(sizes: tuple[Dimension, ...], construct: Construct, target: TraceTarget, loaded: Loaded) -> bool:
    """Return whether one of two sizes is what an argument has by default, and the other follows from made-up ones.

    They would agree if what is made up were what somebody has written for something else.
    """
    cls, others = class_of(target, loaded), _of_others(sizes, _multiplied(construct.expression), target, loaded)
    fixed = [each.size for each, other in zip(sizes, others, strict=False) if each.size == other]
    if cls is None or len(fixed) != 1 or fixed[0] < LEAST_SIZE:
        return False
    given = _with_defaults(construct.expression, cls, fixed[0])
    if not given or given == _with_defaults(construct.expression, cls, 0):
        return False
    with_other_default = _of_others(sizes, _multiplied(given, fixed[0]), target, loaded)
    # Each follows from one of the two, and from that alone.
    pairs = zip(sizes, others, with_other_default, strict=False)
    return len(with_other_default) == 2 and all((one == each.size) != (two == each.size) for each, one, two in pairs)


def with_each_other(
    construct: Construct, target: TraceTarget, loaded: Loaded
) -> Iterator[tuple[int, int, Built | None]]:
    """Yield each number of a construction, another one, and the model that is built with that, None where none is.

    There are none where it is given something else that may decide sizes, or too many numbers.
    """
    call = call_in(construct.expression)
    if call is None:
        return
    numbers, is_alone = _numbers_alone([*call.args, *(each.value for each in call.keywords)])
    if not is_alone or len(numbers) > _MOST_OF_ALL:
        return
    for number in numbers:
        before = ast.literal_eval(number)
        for factor in _FACTORS:
            number.value = before * factor
            built = built_as(ast.unparse(call), target, loaded)
            if built is not None or factor == _FACTORS[-1]:
                yield before, before * factor, built
                break
        number.value = before


def _numbers_alone(given: Sequence[ast.expr]) -> tuple[list[ast.Constant], bool]:
    """Return the numbers among values and in what holds several; and whether there is nothing else that may be a size.

    What stands in for a module is no size, nor are fractions, flags, and nothing.
    """
    numbers, todo = list[ast.Constant](), list(given)
    while todo:
        match todo.pop(0):
            case each if _is_number(each):
                numbers.append(each)
            case ast.Tuple() | ast.List() as several:
                todo += several.elts
            case ast.Constant(value=float() | bool() | None):
                pass
            case each if not is_stand_in(ast.unparse(each)):
                return numbers, False
            case _:
                pass
    return numbers, True


def _of_others(sizes: tuple[Dimension, ...], expression: str, target: TraceTarget, loaded: Loaded) -> tuple[int, ...]:
    """Return what sizes are in a model that another construction makes; () if that is not known."""
    built = built_as(expression, target, loaded) if expression else None
    return of_other_layers(sizes, built.root) if built is not None else ()


def _multiplied(expression: str, size: int | None = None) -> str:
    """Return a construction with each number in it multiplied, or each that is a size; "" if there are too many."""
    call = call_in(expression)
    if call is None:
        return ""
    given = chain(call.args, (each.value for each in call.keywords))
    numbers = [each for value in given for each in ast.walk(value) if _is_number(each) and size in {None, each.value}]
    if len(numbers) > _MOST_OF_ALL:
        numbers = [each for each in numbers if ast.literal_eval(each) >= LEAST_SIZE]
    if not 0 < len(numbers) <= len(_PRIMES):
        return ""
    for number, prime in zip(numbers, _PRIMES, strict=False):
        number.value = ast.literal_eval(number) * prime
    return ast.unparse(call)


def _with_defaults(expression: str, cls: type, size: int) -> str:
    """Return a construction that also gives what is a size by default and is not given; "" where that is not known."""
    call = call_in(expression)
    if call is None or any(isinstance(each, ast.Starred) for each in call.args):
        return ""
    given = {each.arg for each in call.keywords}
    left = list(parameters_of(cls).items())[len(call.args) :]
    call.keywords += [
        ast.keyword(name, ast.Constant(size))
        for name, each in left
        if name not in given and type(each.default) is int and each.default == size
    ]
    return ast.unparse(call) if None not in given else ""


def _is_number(node: ast.AST) -> TypeGuard[ast.Constant]:
    return isinstance(node, ast.Constant) and type(node.value) is int
