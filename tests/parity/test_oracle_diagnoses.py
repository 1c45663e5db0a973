"""Every site at which torch.fx raises is reported, and nothing else: own models, fixtures, and real models.

Where one of the two had no time left, only what both explored is compared.
"""

import itertools

import pytest

from tests.parity import test_oracle
from tests.parity.oracle.subjects import Subject, corpus, fed_corpus, fixtures, own
from tests.parity.oracle.verdicts import Limits, verdict

FUNCTIONS = [
    Subject(f"function:{each.__name__}{', fed' if inputs else ''}", lambda each=each: each, inputs)
    for each in (
        test_oracle.branches,
        test_oracle.loops,
        test_oracle.asserted,
        test_oracle.own_error,
        test_oracle.empty_if_all_are_low,
        test_oracle.swallowed,
        test_oracle.handed_on,
        test_oracle.passed_on,
        test_oracle.length,
        test_oracle.iterated,
        test_oracle.numbers,
        test_oracle.items,
        test_oracle.argument,
    )
    for inputs in (None, lambda _: test_oracle.INPUTS)
]
SMALL = [*FUNCTIONS, *own(), *fixtures()]
# With inputs every third, which is more than a hundred.
LARGE = [*corpus(), *itertools.islice(fed_corpus(), 0, None, 3)]


def _check(subject: Subject, limits: Limits) -> None:
    result = verdict(subject, limits)
    assert not result, str(result)


@pytest.mark.parametrize("subject", SMALL, ids=lambda subject: subject.name)
def test_small_models(subject: Subject) -> None:
    _check(subject, Limits())


@pytest.mark.corpus
@pytest.mark.parametrize("subject", LARGE, ids=lambda subject: subject.name)
def test_real_models(subject: Subject) -> None:
    _check(subject, Limits(ours=2.0, theirs=2.0, further=10, confirmations=3))
