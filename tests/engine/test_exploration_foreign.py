"""Functions that cannot take symbolic values: who knows them beforehand finds the same, in fewer runs."""

import dataclasses

import torch
from torch import nn

from fxengine.exploration import Budget, Diagnosis, diagnose, diagnose_in_steps
from fxengine.exploration.steering import Run

picky = torch.as_tensor
"""Takes no symbolic value, as einops and its like."""


def harmless(x):
    return x + 1


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return picky(self.layer(x)) + harmless(x)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])

    def forward(self, x):
        x = picky(x)
        for block in self.blocks:
            x = block(x)
        return picky(x)


def problems(diagnosis: Diagnosis) -> set[str]:
    fields = [each.name for each in dataclasses.fields(diagnosis.problems[0]) if each.name != "exception"]
    return {repr([getattr(problem, name) for name in fields]) for problem in diagnosis.problems}


def test_what_is_known_beforehand_changes_nothing_but_the_number_of_runs(monkeypatch):
    runs: list[Run] = []
    execute = Run.execute
    monkeypatch.setattr(Run, "execute", lambda run, args: (runs.append(run), execute(run, args))[1])
    inputs = ((torch.zeros(2, 4),), {})
    first, cold = next(diagnose_in_steps(Net(), inputs=inputs)), len(runs)
    assert first.foreign == ((__name__, "picky"),)
    again, warm = next(diagnose_in_steps(Net(), inputs=inputs, foreign=first.foreign)), len(runs) - cold
    assert problems(again) == problems(first)
    assert len(first.problems) == 3
    assert [str(node) for node in again.graph.nodes] == [str(node) for node in first.graph.nodes]
    assert again.foreign == first.foreign
    assert warm == 1 < cold


def test_functions_that_are_no_longer_foreign_or_gone_do_no_harm():
    class Fine(nn.Module):
        def forward(self, x):
            return harmless(x)

    known = ((__name__, "harmless"), (__name__, "gone"), ("no_such_module", "f"), (__name__, "__name__"))
    diagnosis = next(diagnose_in_steps(Fine(), foreign=known))
    assert diagnosis.complete
    assert [node.op for node in diagnosis.graph.nodes] == ["placeholder", "call_function", "output"]


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.mu = nn.Linear(8, 2)

    def forward(self, obs):
        mu = self.mu(obs)
        return torch.distributions.Normal(mu, mu.exp(), validate_args=True).mean


def test_what_a_library_asks_inside_is_told_as_that_and_not_as_a_question_of_the_line_that_calls_it():
    found = {each.headline: each.hints for each in next(diagnose_in_steps(Policy())).problems}
    call = "`torch.distributions.Normal(mu, mu.exp(), validate_args=True)`"
    truth = f"{call} asks a symbolic value for its truth inside, but its value is only known when data flows"
    items = f"{call} iterates over a symbolic value inside, but torch.fx traces without shapes"
    assert set(found) == {truth, items}
    for hints in found.values():
        assert hints[0].startswith("`validate_args=False`")
        assert not any("[0]" in each or "torch.where" in each for each in hints)


class Agent(Policy):
    """Hands a symbolic value to its distribution, which wants a tensor."""

    def forward(self, obs):
        mu = self.mu(obs)
        return torch.distributions.Normal(mu, mu.exp(), validate_args=True).log_prob(mu)


def test_whatever_the_checks_of_a_distribution_raise_is_mended_by_leaving_them_out():
    diagnosis = diagnose(Agent(), inputs=torch.randn(2, 8), budget=Budget(seconds=60))
    found = {each.code: each.hints for each in diagnosis.problems}

    assert found["FX009"]
    for hints in found.values():
        assert hints[0].startswith("`validate_args=False`")


class Asking(nn.Module):
    def forward(self, x):
        return {}[x]


class Lacking(nn.Module):
    def __init__(self):
        super().__init__()
        self.asking = Asking()

    def forward(self, x):
        return self.asking(x) + lacking  # noqa: F821 — What it is about.


def test_a_name_that_is_not_defined_is_told_whatever_the_values_before_it_are():
    found = {(each.rule.code, each.message) for each in diagnose(Lacking()).problems}
    assert ("FX009", "name 'lacking' is not defined") in found
