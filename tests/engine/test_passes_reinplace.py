"""Operators that work in place again: the same code as torch.fx's pass makes, and the same results."""

import pytest
import torch
import torch.fx
from torch.func import functionalize
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.passes import reinplace as theirs

from fxengine.interop import from_torch_fx
from fxengine.passes import reinplace as ours


def basic(x):
    a = x + 1
    return a.mul(2).add(3).relu()


def of_an_input(x):
    return x.add(1), x.mul(2)


def used_later(x):
    a = x + 1
    b = a.mul(2)
    return a + b


def a_view_used_later(x):
    a = x.clone()
    view = a.view(-1)
    b = a.add(1)
    return b, view


def a_dead_view(x):
    a = x.clone()
    a.view(-1)
    return a.add(1)


def resized(x):
    return torch.ones(1) + x, torch.ge(x.clone(), 0)


def overlapping(x):
    return torch.ones(1).expand(4, 4).add(x)


def twice(x):
    a = x.clone()
    return a.mul(a)


def scatter(x):
    a = torch.zeros(4, 4) + x
    a[0] = torch.ones(4)
    a[:, 2:] += 1
    return a


def diagonal(x):
    a = x.clone()
    a.diagonal().fill_(0)
    a.diagonal(1).add_(2)
    return a, a.sum()


def several_views(x):
    a = x.clone()
    b = a[0]
    c = b[1:]
    c.add_(1)
    b.mul_(2)
    return a


def strided(x):
    a = x.clone()
    a.as_strided((2,), (3,), 1).mul_(3)
    return a


def pieces(x):
    a = x.clone()
    first, second = a.split(2)
    first.add_(1)
    second.mul_(2)
    return a, first


def of_an_input_view(x):
    view = x[0]
    view.add_(1)
    return view


def into_an_input(x):
    x.select(0, 1).fill_(7)
    x.add_(1)
    return x


def different_place(x):
    a = x.clone()
    b = a[0]
    c = b.add(1)
    return torch.select_scatter(a, c, 0, 1)


def transposed(x):
    a = x.clone()
    b = a.transpose(0, 1)
    b.unsqueeze_(0)
    return b.add(1), a.add(1)


def returned_twice(x):
    a = x + 1
    b = a.relu()
    return b, b.view(-1), a.size(0)


FUNCTIONS = [
    basic, of_an_input, used_later, a_view_used_later, a_dead_view, resized, overlapping, twice, scatter, diagonal,
    several_views, strided, pieces, of_an_input_view, into_an_input, different_place, transposed, returned_twice,
]  # fmt: skip


def functional(function, *inputs):
    return make_fx(functionalize(function, remove="mutations_and_views"))(*inputs)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
@pytest.mark.parametrize("remove", ["mutations", "mutations_and_views"])
def test_the_same_code(function, remove):
    example = torch.rand(4, 4)
    graph = make_fx(functionalize(function, remove=remove))(example.clone())
    converted = from_torch_fx(graph)
    expected = theirs.reinplace(graph, example.clone())
    result = ours.reinplace(converted, example.clone())
    assert result is converted
    assert result.code == expected.code
    result.graph.lint()
    changed, reference = example.clone(), example.clone()
    torch.testing.assert_close(result(changed), function(reference))
    torch.testing.assert_close(changed, reference)
    notes = [
        [(node.name, node.meta.get("node_idx"), str(node.meta.get("view_of"))) for node in module.graph.nodes]
        for module in (expected, result)
    ]
    assert notes[0] == notes[1]


def test_inputs_that_share_memory():
    def function(x, y):
        return (x + 1).add(y), x[0].mul(2)

    base = torch.rand(2, 2)
    graph = make_fx(function)(base, base[0])
    converted = from_torch_fx(graph)
    assert ours.reinplace(converted, base, base[0]).code == theirs.reinplace(graph, base, base[0]).code


def test_attributes_are_not_changed():
    constant = torch.ones(3)
    graph = make_fx(lambda x: constant.add(x).mul(2))(torch.rand(3))
    result = ours.reinplace(from_torch_fx(graph), torch.rand(3))
    assert "add.Tensor" in result.code
    assert "mul_.Tensor" in result.code
    result(torch.rand(3))
    assert constant.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    "operator",
    [
        torch.ops.aten.view.default, torch.ops.aten.split.Tensor, torch.ops.aten.add.Tensor, torch.ops.aten.add_.Tensor,
        torch.ops.aten.zeros.default, torch.ops.aten.pow.Scalar, torch.ops.aten.as_strided.default, torch.relu, None,
    ],
    ids=lambda operator: getattr(operator, "__name__", str(operator)),
)  # fmt: skip
def test_what_is_known_of_operators(operator):
    assert ours._is_view_op(operator) == theirs._is_view_op(operator)
    assert ours._get_view_type(operator).name == theirs._get_view_type(operator).name
    assert ours._maybe_get_inplace_op(operator) is theirs._maybe_get_inplace_op(operator)
