"""What is advised about a problem, where that depends on how the code reads."""

import torch
from torch import nn

from fxengine.exploration import diagnose


class Pooling(nn.Module):
    def forward(self, features):
        features["embedding"] = features["tokens"].mean(1)
        return features


def test_an_entry_of_a_dictionary_is_returned_in_one_of_its_own():
    (problem,) = diagnose(Pooling()).problems
    assert problem.code == "FX005"
    assert (
        problem.hints[0]
        == 'return it in a dictionary of its own, `{"embedding": …}`, for the caller to put into `features`'
    )
    assert not any("torch.where" in each or "index_put" in each for each in problem.hints)


class Table(nn.Module):
    def forward(self, table):
        return sum(value for _, value in table.items())


def test_entries_of_a_dictionary_are_not_numbered():
    (problem,) = diagnose(Table()).problems
    assert (problem.code, problem.kind) == ("FX003", "metadata")
    assert problem.hints[0] == "go through keys that are known in `__init__`, and look each of them up"


class Typed(nn.Module):
    def forward(self, mask):
        return mask.type(torch.FloatTensor)


def test_the_data_type_is_named_that_a_class_of_tensors_has():
    (problem,) = diagnose(Typed()).problems
    assert problem.code == "FX008"
    assert problem.hints[0] == "`.type(torch.float32)` names the data type of a `torch.FloatTensor`"


def test_what_is_said_of_a_symbolic_value_is_said_in_torch_fx_s_words():
    (problem,) = diagnose(_refused).problems
    assert problem.message == "cannot take <class 'torch.fx.proxy.Proxy'>"
    assert problem.message in problem.headline


def _refused(x):
    raise TypeError(f"cannot take {type(x)}")
