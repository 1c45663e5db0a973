"""Inputs that choose among what a model keeps under names."""

import pytest
from torch import Tensor, nn

from tests.support.feeding import fed


class Heads(nn.Module):
    def __init__(self):
        super().__init__()
        self.heads = nn.ModuleDict({"left": nn.Linear(7, 3), "right": nn.Linear(7, 2)})
        self.widths = {"left": 3, "right": 2}


class Named(Heads):
    def forward(self, x, task):
        return self.heads[task](x)


class Annotated(Heads):
    def forward(self, x: Tensor, task: str):
        return self.heads[task](x)


class LeftOut(Heads):
    def forward(self, x, task=None):
        return self.heads[task](x)


class OtherByDefault(Heads):
    def forward(self, x, task="middle"):
        return self.heads[task](x)


class HandedOn(Heads):
    def forward(self, *args, task=None):
        return self.heads[task](*args)


class OfPlainNumbers(Heads):
    def forward(self, x, key: str):
        return x[:, : self.widths[key]]


class Refusing(Heads):
    def forward(self, x, task):
        if task not in self.heads:
            raise ValueError(f"there is no head for {task}")
        return self.heads[task](x)


class InTurn(Heads):
    def forward(self, x, mode=None):
        if mode == "left":
            return self.heads["left"](x)
        if mode in {"right", "outer"}:
            return self.heads["right"](x)
        raise NotImplementedError


class InBatch(Heads):
    def forward(self, batch):
        return self.heads[batch["task"]](batch["x"])


class Several(Heads):
    def forward(self, x, tasks):
        return [self.heads[task](x) for task in tasks]


class ByMessage(nn.Module):
    """Says itself what something may be."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(7, 8)
        self.heads = {"left": nn.Linear(8, 2), "right": nn.Linear(8, 3)}

    def forward(self, x, target_domain):
        if not self.is_known(target_domain):
            raise ValueError(f"{target_domain} is no domain, the domains are {[*self.heads]}")
        return self.heads[target_domain](self.fc(x))

    def is_known(self, domain):
        return isinstance(domain, str) and any(domain == each for each in self.heads)


@pytest.mark.parametrize(
    ("root", "expression"),
    [
        (ByMessage(), "torch.randn(2, 7), 'left'"),
        (Named(), "torch.randn(2, 7), 'left'"),
        (Annotated(), "torch.randn(2, 7), 'left'"),
        (LeftOut(), "torch.randn(2, 7), 'left'"),
        (OtherByDefault(), "torch.randn(2, 7), 'left'"),
        (HandedOn(), "torch.randn(2, 7), task='left'"),
        (OfPlainNumbers(), "torch.randn(2, 7), 'left'"),
        (Refusing(), "torch.randn(2, 7), 'left'"),
        (InTurn(), "torch.randn(2, 7), 'left'"),
        (InBatch(), "{'x': torch.randn(2, 7), 'task': 'left'}"),
        (Several(), "torch.randn(2, 7), ['left', 'right']"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_what_is_looked_up_among_names_is_one_of_these(root, expression):
    assert fed(root).expression == expression
