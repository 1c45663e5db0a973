"""Arguments of which only the docstring says what they are."""

from functools import partial

import pytest
from torch import nn

from fxworker.arguments import Search
from fxworker.building import attempt


class Base(nn.Module):
    def __init__(self, value):
        super().__init__()
        self.kept = [value]


class Google(Base):
    """A model.

    Args:
        value (list of int): how wide
            it is.
    """


class Numpy(Base):
    """A model.

    Parameters
    ----------
    value : str, optional
        One of 'deep' and `flat`.
    """


class Sphinx(Base):
    """A model.

    :param str value: the kind, such as "wide"
    """


class Typed(Base):
    """A model.

    :param value: how wide
    :type value: dict
    """


class OfItsConstructor(Base):
    def __init__(self, value):
        """Make it.

        Args:
            value (nn.Module): what is inside.
        """
        super().__init__(value)


class Otherwise(Base):
    """A model.

    Args:
        value (str): wrong.
    """

    def __init__(self, value):
        super().__init__(value)
        self.fc = nn.Linear(2 * value, 3)


class Silent(Base):
    """A model with a value: it is kept.

    Note: value matters.
    """


@pytest.mark.parametrize(
    ("cls", "expected"),
    [
        (Google, "[64, 64]"), (Numpy, "'deep'"), (Sphinx, "'wide'"), (Typed, "{}"),
        (OfItsConstructor, "torch.nn.Identity()"), (Otherwise, "64"), (Silent, "64"),
    ],
)  # fmt: skip
def test_what_the_docstring_says_counts_where_the_code_is_silent(cls, expected):
    expression, _ = Search(cls.__name__, cls, {cls.__name__: cls}, partial(attempt, real=False)).run()
    assert expression == f"{cls.__name__}(value={expected})"
