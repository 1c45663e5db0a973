"""Models whose forward needs what one of their methods sets first."""

import pytest

LINEAR = """
from torch import nn

class Linear(nn.Module):
    def __init__(self, scale=1.0):
        super().__init__()
        self.scale, self.layer = scale, None

    def build(self, in_features=None, out_features=None):
        if in_features is None or out_features is None:
            raise ValueError("say `in_features` and `out_features`")
        self.layer = nn.Linear(in_features, out_features)

    def reset(self):
        self.layer = None

    def forward(self, x):
        assert self.layer is not None
        return self.layer(x) * self.scale
"""

READY = "[(model := Linear()).build(in_features=64, out_features=64), model][1]"


def test_a_method_is_called_that_sets_what_the_forward_needs(worker, tmp_path):
    path = tmp_path / "linear.py"
    path.write_text(LINEAR)
    (target,) = worker.trace(path).targets
    assert (target.construct.expression, target.status, target.problems) == (READY, "complete", ())
    assert target.inputs.expression == "torch.randn(2, 64)"
    edited = LINEAR.replace("* self.scale", "* self.scale + 1")
    (again,) = worker.trace(path, edited).targets
    assert (again.construct, again.inputs, again.problems) == (target.construct, target.inputs, ())


def test_what_somebody_builds_is_made_ready_as_well(worker, tmp_path):
    path = tmp_path / "linear.py"
    path.write_text(f"{LINEAR}\nmodels = [Linear(scale=2.0)]\n")
    (target,) = worker.trace(path).targets
    assert target.construct.expression == READY.replace("Linear()", "Linear(scale=2.0)")
    assert (target.status, target.problems) == ("complete", ())


def test_a_method_sets_what_no_constructor_has_mentioned(worker, tmp_path):
    path = tmp_path / "cell.py"
    path.write_text(
        "import torch\nfrom torch import nn\n\n"
        "class Cell(nn.Module):\n"
        "    def __init__(self, width, steps=4):\n"
        "        super().__init__()\n"
        "        self.fc, self.width = nn.Linear(width, width), width\n\n"
        "    def forward(self, x):\n"
        "        return self.fc(x) + torch.zeros((self.batch_size, self.width))\n\n"
        "    def reset_state(self, batch_size=2):\n"
        "        self.batch_size = batch_size\n"
    )
    (target,) = worker.trace(path).targets
    assert target.construct.expression == "[(model := Cell(width=64)).reset_state(), model][1]"
    assert (target.status, target.problems, target.inputs.expression) == ("complete", (), "torch.randn(2, 64)")


@pytest.mark.parametrize(
    "unset",
    [
        LINEAR.replace("nn.Linear(in_features, out_features)", "None"),
        LINEAR.replace("class Linear", "# fx: Linear(2.0)\nclass Linear"),
    ],
    ids=["no method sets it", "a person says how it is built"],
)
def test_what_no_method_sets_or_a_person_wants_so_is_told(worker, tmp_path, unset):
    path = tmp_path / "linear.py"
    path.write_text(unset)
    (target,) = worker.trace(path).targets
    (problem,) = target.problems
    assert "model :=" not in target.construct.expression
    assert problem.location.span.line == unset[: unset.index("assert")].count("\n") + 1


FEW_SHOT = """
import torch
from torch import Tensor, nn
from torch.nn import functional as F

class Prototypes(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = nn.Sequential(nn.Conv2d(3, 8, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.kept, self.classes = torch.tensor(()), torch.tensor(())

    def keep(self, support_images: Tensor, support_labels: Tensor):
        self.classes = support_labels
        features = self.backbone(support_images)
        count = len(torch.unique(support_labels))
        self.kept = torch.stack([features[support_labels == each].mean(0) for each in range(count)])

    def forward(self, query_images: Tensor) -> Tensor:
        shares = F.one_hot(self.classes, len(self.kept)).float().mean(0)
        return -torch.cdist(self.backbone(query_images), self.kept) * shares
"""


def test_a_method_is_given_tensors_that_the_forward_compares_with(worker, tmp_path):
    path = tmp_path / "prototypes.py"
    path.write_text(FEW_SHOT)
    (target,) = worker.trace(path).targets
    given = "torch.randn(2, 3, 224, 224), torch.arange(2)"
    assert target.construct.expression == f"[(model := Prototypes()).keep({given}), model][1]"
    assert (target.inputs.expression, target.problems) == ("torch.randn(2, 3, 224, 224)", ())
    edited = FEW_SHOT.replace("* shares", "* (shares + 1)")
    (again,) = worker.trace(path, edited).targets
    assert (again.construct, again.inputs, again.problems) == (target.construct, target.inputs, ())


FITTED = """
import torch
from torch import nn

class NotFittedError(RuntimeError):
    pass

class Fitting:
    fitted = False

    def _set_fitted(self):
        self.fitted = True
        return self

    def check_fitted(self):
        if not self.fitted:
            raise NotFittedError(f"{type(self).__name__} has not been fit!")

class Scaled(nn.Module, Fitting):
    def __init__(self):
        super().__init__()
        self.ready = False

    def forward(self, x: torch.Tensor):
        self.check_fitted()
        if not self.ready:
            raise ValueError("call `choose` first")
        return (x - self.mean) / self.scale > self.limit

    def fit(self, reference: torch.Tensor):
        self.mean, self.scale = reference.mean(0), reference.std(0)
        return self._set_fitted()

    def choose(self, scores: torch.Tensor):
        self.limit, self.ready = scores.max(), True
"""


def test_a_flag_is_set_by_what_is_called_for_it_and_one_after_the_other(worker, tmp_path):
    path = tmp_path / "scaled.py"
    path.write_text(FITTED)
    (target,) = worker.trace(path).targets
    made = target.construct.expression
    assert (made.count(".fit("), made.count(".choose("), made.count("_set_fitted")) == (1, 1, 0), made
    assert (target.status, target.problems) == ("complete", ())
    assert target.inputs is not None
