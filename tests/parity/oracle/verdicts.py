"""Holds a subject's diagnosis against torch.fx: the one place where the oracle calls the engine."""

import functools
from dataclasses import dataclass

import torch.fx

import fxengine
from fxengine import exploration
from tests.parity.oracle.comparison import Comparison, as_call, compare
from tests.parity.oracle.search import Budget
from tests.parity.oracle.subjects import Subject


@dataclass(frozen=True, slots=True)
class Limits:
    """What one model may cost: seconds for the diagnosis and for torch.fx's side, further runs, and confirmations."""

    ours: float = 10.0
    theirs: float = 10.0
    further: int = 20
    confirmations: int | None = None


def verdict(subject: Subject, limits: Limits) -> Comparison:
    """Compare a subject's diagnosis with what torch.fx does."""
    root = subject.build()
    inputs = subject.inputs(root) if subject.inputs is not None else None
    diagnose = functools.partial(
        fxengine.diagnose,
        root,
        inputs=as_call(inputs),
        concrete_args=subject.concrete_args(fxengine),
        budget=exploration.Budget(limits.ours),
    )
    budget = Budget(limits.theirs, further=limits.further)
    return compare(root, diagnose, inputs, subject.concrete_args(torch.fx), budget, limits.confirmations)
