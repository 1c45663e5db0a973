"""What generated programs consist of: templates whose fields `programs` fills.

Deliberately data alone. An expression in `TENSORS` is four by four if what fills its fields is.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Signature:
    """Parameters of a `forward`.

    Attributes:
        parameters: As they stand in the definition.
        tensors: Which of them hold tensors.
        opening: Statements that make tensors of the others.
        inputs: An expression for the arguments by position.
        concrete: An expression for `concrete_args`, in which `engine` is the package.
    """

    parameters: str
    tensors: tuple[str, ...]
    opening: tuple[str, ...] = ()
    inputs: str = "(T(1), T(2))"
    concrete: str = "None"


@dataclass(frozen=True)
class Attribute:
    """What a module may hold, how it is made in the constructor, and how it is used; `{a}` is its name."""

    made: str
    uses: tuple[str, ...]
    statements: tuple[str, ...] = ()


PRELUDE = """\
import collections
import copy
import functools
import math
import operator
from math import floor, sqrt
from typing import Any, Callable, Dict, List, Optional, Tuple, Union

import torch
import torch.fx
import torch.nn.functional as F
from torch import Tensor, nn

from tests.parity.program_vocabulary import (
    Asked, Box, Deep, Doubling, Holder, Inner, Mode, Pair, Point, Scaling, Several, Straight, T, boxed, decorated,
    deeper, held, leaf, plain, rows_of, scripted, second_leaf,
)

for name in ("boxed", "floor", "leaf", "len", "second_leaf"):
    torch.fx.wrap(name)


"""

VARIABLES = (
    "a",
    "b",
    "x",
    "y",
    "add",
    "add_1",
    "x_1",
    "relu",
    "out",
    "tmp",
    "self_1",
    "sum_1",
    "getitem",
    "_",
    "input",
)
ATTRIBUTE_NAMES = (
    "linear", "add", "x", "relu", "input", "_hidden", "block", "block_1", "weight", "print", "layer1", "Upper", "fc",
    "is_", "output", "getitem", "mul_1", "self_", "range", "tensor_constant0", "_tensor_constant0", "copy_", "size",
)  # fmt: skip
NUMBERS = ("0", "1", "2", "3", "-1", "0.5", "1e-05", "True", "2.0", "float('inf')", "-0.0")
SIZES = (
    "{t}.size(0)", "{t}.shape[0]", "{t}.shape[-1]", "{t}.size()[1]", "({t}.size(-1) // 1)", "(4)", "len({t})",
    "operator.mul({t}.size(0), 1)", "-(-{t}.shape[0])", "max(4, 1)",
)  # fmt: skip

TENSORS = (
    # Operators, both ways round.
    "{t} + {t}", "({t} - {t})", "({t} * {t})", "({t} / ({t}.abs() + 1))", "({t} @ {t})", "(-{t})", "(+{t})",
    "(2 - {t})", "({n} + {t})", "({t} * {n})", "(2 / ({t}.abs() + 1))", "({t}.abs() ** 2)", "(2 ** {t})", "abs({t})",
    "(7 // ({t}.abs() + 1))", "({t} // 2)", "({t} % 3)", "(7 % ({t}.abs() + 1))", "({t} @ {t}.T)", "(True + {t})",
    "({t} > {t}).float()", "({t} == 0).to({t}.dtype)", "(~({t} > 0)).float()", "(({t} > 0) & ({t} < 1)).float()",
    "(({t} > 0) | ({t} > {t})).float()", "(({t} != 0) ^ ({t} >= {n})).float()", "({t}.int() << 1).float()",
    "(1 << {t}.abs().int()).float()", "({t}.int() >> 1).float()", "(5 & {t}.int()).float()", "(5 | {t}.int()).float()",
    "(5 ^ {t}.int()).float()", "(8 >> {t}.abs().int()).float()", "(1.5 > {t}).float()",
    "operator.add({t}, {t})", "operator.neg({t})", "operator.matmul({t}, {t})", "operator.getitem({t}, slice(0, 4))",
    "operator.truediv({t}, 2)", "operator.gt({t}, {t}).float()", "operator.pow({t}, 2)",
    "operator.iadd({t}.clone(), 1)",
    "operator.and_({t} > 0, {t} > 1).float()", "operator.invert({t} > 0).float()", "operator.lshift({t}.int(), 1)",
    # torch's functions.
    "torch.relu({t})", "torch.add({t}, {t}, alpha={n})", "torch.cat([{t}, {t}], dim=0)[:4]",
    "torch.cat(({t}, {t}))[4:]",
    "torch.stack([{t}, {t}]).sum(0)", "torch.where({t} > 0, {t}, {t})", "torch.clamp({t}, min=0)",
    "torch.einsum('ij,jk->ik', {t}, {t})", "torch.matmul(input={t}, other={t})", "torch.mul({t}, {n})",
    "torch.sum({t}, dim=[0], keepdim=True).expand(4, 4)", "torch.zeros(4, dtype={t}.dtype, device={t}.device) + {t}",
    "torch.zeros({s}, {s}) + {t}", "torch.ones_like({t})", "torch.full((4, {s}), {n}).add({t})",
    "torch.arange(4) * {t}",
    "torch.tensor([1.0, 2.0, 3.0, 4.0]) * {t}", "torch.chunk({t}, 2, dim=0)[0].repeat(2, 1)", "torch.eye(4) @ {t}",
    "torch.max({t}, dim=0)[0] + {t}", "torch.max({t}, 0).values + {t}", "torch.sort({t})[1].float()",
    "torch.special.expit({t})", "torch.linalg.norm({t}) + {t}", "torch.ops.aten.add.Tensor({t}, {t})",
    "torch.ops.aten.relu({t})", "torch.nn.functional.gelu({t})", "torch.empty_like({t}).fill_(1)",
    "torch.Tensor.add({t}, 1)",
    "torch.rand(4).mul(0) + {t}", "torch._C._nn.gelu({t})", "torch.zeros(4, 4, dtype=torch.float64) * {t}",
    "torch.meshgrid({t}[0], {t}[1], indexing='ij')[0]", "torch.broadcast_tensors({t}, {t})[1]", "torch.float32 and {t}",
    "F.relu({t}, inplace=False)", "F.softmax({t}, dim=-1)", "F.dropout({t}, {n} * 0, training=False)", "F.silu({t})",
    "F.layer_norm({t}, (4,))", "F.layer_norm({t}, {t}.shape[1:])", "F.linear({t}, {t})", "F.pad({t}, (1, 1))[:, 1:-1]",
    "F.interpolate({t}[None, None], scale_factor=2.0)[0, 0, ::2, ::2]", "F.one_hot({t}.abs().long(), 4)[0].float()",
    "F.normalize({t}, p=2.0, dim=1, eps=1e-12)", "F.scaled_dot_product_attention({t}, {t}, {t})",
    "F.glu({t}).repeat(1, 2)",
    "F.max_pool2d({t}[None], 3, 1, 1)[0]", "F.conv1d({t}, {t}[:, :, None])", "F.embedding({t}.abs().long(), {t})[0]",
    # Methods and attributes.
    "{t}.relu()", "{t}.view(4, 4)", "{t}.reshape({s}, -1)", "{t}.transpose(0, 1)", "{t}.t()", "{t}.T", "{t}.mT",
    "{t}.H",
    "{t}.permute(1, 0)", "{t}.contiguous()", "{t}.float()", "{t}.to({t}.dtype)", "{t}.type_as({t})", "{t}.data",
    "{t}.masked_fill({t} > 0, {n})", "{t}.expand(4, 4)", "{t}.unsqueeze(0).squeeze(0)", "{t}.flatten().view({s}, {s})",
    "{t}.add({t}, alpha=2)", "{t}.sum(dim=1, keepdim=True).add({t})", "{t}.softmax(dim=-1)", "{t}.to('cpu')",
    "{t}.to(device=torch.device('cpu'), dtype=torch.float32)", "{t}.new_zeros({s}, 4)", "{t}.new_ones({t}.shape)",
    "{t}.clone().relu_()", "{t}.clone().add_({n})", "{t}.chunk(2)[1].repeat(2, 1)",
    "{t}.split(2, dim=1)[0].repeat(1, 2)",
    "{t}.unbind(0)[0] + {t}", "{t}.max(0).values.add({t})", "{t}.max(dim=1, keepdim=True)[0] * {t}", "{t}.real",
    "{t}.detach()", "{t}.requires_grad_(False)", "{t}.view(-1).view(4, {s})",
    "{t}.type(torch.float64).float()", "{t}.lerp({t}, 0.5)", "{t}.where({t} > 0, {t})",
    "{t}.index_select(0, torch.arange(4))",
    "getattr({t}, 'T')", "getattr({t}, 'relu')()", "{t}.__add__({t})", "{t}.__getitem__(slice(None))", "{t}.__neg__()",
    # Indices.
    "{t}[:]", "{t}[..., :]", "{t}[:, None, :].squeeze(1)", "{t}[[0, 1, 2, 3]]", "{t}[torch.arange(4)]", "{t}[0:4:1]",
    "{t}[::2].repeat(2, 1)", "{t}[:{t}.size(0)]", "{t}[None][0]", "{t}[:, 0:4]", "{t}[-1].add({t})", "{t}[...]",
    "{t}[{t} > 9].sum() + {t}", "{t}[(slice(None), slice(0, {s}))]", "{t}[:, [3, 2, 1, 0]]", "{t}[True][0]",
    "{t}[None, ..., None][0, ..., 0]",
    "{t}[0][0].add({t})", "{t}[{s} - 1].add({t})", "{t}[-{s}:, :]", "{t}[[True, True, True, True]]",
    # Functions of Python, closures, what is wrapped.
    "plain({t}, {t})", "plain({t}, scale={n})", "plain({t}, 1, {t}, {t}, more={t})", "plain(*[{t}, {t}])",
    "plain(**{'a': {t}})",
    "leaf({t})", "leaf({t}, {t})", "leaf({t}, b={n}, mode='fast')", "leaf({t}, {s}, [{t}, ({t}, 1)], mode={'k': {t}})",
    "leaf({t}, mode=None)", "leaf({t}, mode=torch.float32)", "leaf({t}, mode=slice(1, {s}))",
    "leaf({t}, mode=range(3))", "leaf({t}, mode=torch.device('cpu'))", "leaf({t}, mode=(1, 'a', 2j))",
    "leaf({t}, mode=...)",
    "leaf({t}, mode=torch.Size([1, 2]))", "leaf({t}, mode=torch.strided)", "leaf({t}, mode=-1e30)",
    "leaf({t}, mode=())",
    "leaf({t}, mode=torch.zeros(2))", "leaf({t}, mode=[torch.ones(1), torch.ones(1)])", "leaf({t}, mode=float('nan'))",
    "second_leaf(({t}, {t}))", "second_leaf([{t}, {t}], flag=False)", "second_leaf(Pair({t}, {t}))",
    "second_leaf(Point({t}, y={t}))",
    "boxed(Box({t}))", "boxed({'x': {t}, 'y': [{t}, {'z': {n}}]})", "boxed(Pair({t}, Pair(1, {t})))",
    "leaf(Holder({t}))",
    "boxed(Box(value={t}, scale={n}))", "boxed(Pair({t}))", "leaf({t}, mode=Box([{t}, 1], 3.0))",
    "scripted({t}, 3)", "deeper({t}, 2)", "(lambda v: v + {t})({t})", "functools.partial(torch.add, alpha=2)({t}, {t})",
    "functools.reduce(operator.add, [{t}, {t}, {t}])", "sum([{t}, {t}])", "[{t}, {t}][-1]", "{'k': {t}}['k']",
    "({t}, {t})[0]",
    "Pair({t}, {t}).left", "Pair({t}, {t})[1]", "Box({t}).value", "next(iter([{t}]))",
    "list(map(torch.relu, [{t}]))[0]",
    "dict(k={t}).get('k')", "copy.copy([{t}])[0]", "[v * 2 for v in ({t}, {t})][1]", "(None or {n}) * {t}",
    "{t} * math.sqrt(4)", "{t} * math.sqrt({s})", "{t} * sqrt({s})", "{t} * floor({s})", "{t} * math.pi",
    "{t} / math.pow({s}, 2)",
    "{t} * len({t})", "{t} * {s}", "({s} + {t})", "({s} / 2 + {t})", "{t} * {t}.shape.numel()", "{t}.dim() * 2 + {t}",
    "{t} * ({s} - {s} + 1)",
    # Scattered, masked, chosen, of other types, by other algebras.
    "{t}.clone().scatter_(1, torch.zeros(4, 1, dtype=torch.long), 1.0)",
    "{t}.clone().index_add_(0, torch.arange(4), {t})",
    "torch.scatter({t}, 0, torch.arange(4)[None], {t})", "{t}.masked_scatter({t} > 0, {t})",
    "{t}.gather(1, {t}.argsort(1))",
    "{t}[:, torch.tensor([True, True, True, True])]", "{t}[{t}.argmax(0)]", "torch.where({t} > 0, {t}, 0.0)",
    "torch.where({t} > 0)[0].sum() + {t}", "torch.add({t}, {t}, out=torch.empty(4, 4))", "{t} + torch.tensor(2)",
    "({t}.double() + {t})", "({t}.half() + 1).float()", "{t} + torch.tensor(1.5, dtype=torch.float64)",
    "torch.result_type({t}, 1.0) and {t}", "{t}.to(torch.promote_types({t}.dtype, torch.float64))",
    "torch.fft.irfft(torch.fft.rfft({t}), n=4)", "torch.fft.fft({t}).real",
    "torch.view_as_real(torch.complex({t}, {t}))[..., 0]",
    "torch.linalg.solve(torch.eye(4), {t})", "torch.linalg.slogdet({t})[1] + {t}",
    "torch.sparse.mm(torch.eye(4).to_sparse(), {t})",
    "torch.tensordot({t}, {t}, dims=1)", "torch.roll({t}, {s}, 0)", "{t}.unfold(0, 4, 1)[0]",
    "{t}.as_strided((4, 4), (4, 1))",
    "{t}.diagonal()[:, None] + {t}", "torch.func.functional_call(nn.Linear(4, 4), {}, ({t},))", "Straight.apply({t})",
    "{t}.topk(4).values", "{t}.tensor_split(2)[0].repeat(2, 1)", "torch.vmap(torch.sin)({t})", "decorated({t}, by={t})",
    "Scaling(2.0)({t})", "sum(rows_of({t})) + {t}", "torch.compile(torch.relu, disable=True)({t})",
    "torch.utils.checkpoint.checkpoint(torch.relu, {t}, use_reentrant=False)", "torch.scalar_tensor(2) * {t}",
    "torch.distributions.Normal({t}, 1.0, validate_args=False).log_prob({t})", "{t} * math.ceil({s} / 3)",
    "{t} * ({s} // 3)",
    "{t} * ({s} % 3)", "{t} * ({s} ** 2)", "F.pad({t}, (0, -{s} % 4))[:4, :4]", "{t}.reshape({t}.shape[:1] + (4,))",
    "{t}.view({t}.size())", "{t}.view({t}.shape[0], {t}.numel() // 4)", "{t}.expand_as({t})",
    "{t}.new_full({t}.shape, {s})",
    "torch.zeros_like({t}, dtype=torch.float64) + {t}", "{t} + {t}.shape.count(4)", "({t},)[-1]",
    "{t}.T[-1:, ...].add({t})",
)  # fmt: skip

STATEMENTS = (
    "{x} = {t}\n{x} = {v} + {v}",
    "{x}, {x} = {t}, {t}",
    "{x} = {x} = {t}",
    "tmp = {t}.clone()\ntmp += {t}\n{x} = tmp",
    "tmp = {t}.clone()\ntmp *= {n}\n{x} = tmp",
    "tmp = {t}.clone()\ntmp.add_({t})\n{x} = tmp",
    "tmp = {t}.clone()\ntmp.zero_()",
    "tmp = {t}\ntmp @= {t}\n{x} = tmp",
    "tmp = {t}\ntmp //= 2\ntmp **= 2\ntmp %= 5\ntmp -= 1\ntmp /= 3\n{x} = tmp",
    "tmp = {t}.int()\ntmp <<= 1\ntmp >>= 1\ntmp &= 7\ntmp |= 1\ntmp ^= 2\n{x} = tmp.float()",
    "for i in range(3):\n    {x} = {t} + i",
    "for i, one in enumerate([{t}, {t}]):\n    {x} = one * i",
    "for name, one in {'a': {t}, 'b': {t}}.items():\n    {x} = one",
    "for one, two in zip([{t}], ({t},)):\n    {x} = one - two",
    "with torch.no_grad():\n    {x} = {t}",
    "with torch.enable_grad():\n    {x} = {t}",
    "with torch.autocast('cpu', enabled=False):\n    {x} = {t}",
    "torch._assert({t}.size(0) == 4, 'four rows')",
    "torch._assert({s} == 4, f'rows: {1 + 1}')",
    "assert {t} is not None",
    "if {t} is None:\n    ghost = 1",
    "if isinstance({t}, (int, float)):\n    ghost = {t}",
    "if not isinstance({t}, Tensor):\n    {x} = {t}",
    "if torch.jit.is_scripting() or torch.jit.is_tracing():\n    ghost = {t} + 100",
    "if hasattr({t}, 'relu'):\n    {x} = {t}.relu()",
    "try:\n    {x} = {t}\nfinally:\n    pass",
    "def inner(one, two={n}):\n    return one + two\n{x} = inner({t}, two={t})",
    "scale = {s}\n{x} = {t} * scale",
    "rows, columns = {t}.shape\n{x} = {t}.view(rows, columns)",
    "rows, columns = {t}.size()\n{x} = {t}.reshape(rows * columns).view(columns, rows)",
    "one, two = {t}.chunk(2, dim=0)\n{x} = torch.cat([one, two])",
    "one, two = torch.split({t}, 2)\n{x} = torch.cat((two, one), 0)",
    "one, *others = [{t}, {t}, {t}]\n{x} = others[0]",
    "values, indices = {t}.sort(dim=0)\n{x} = values",
    "one, two, three, four = {t}.unbind()\n{x} = {t} + three",
    "(one, two), three = {t}[:2].chunk(2), {t}\n{x} = three + one",
    "del_me = {t}\ndel del_me",
    "items = []\nitems.append({t})\nitems.extend([{t}])\n{x} = items[0] + items.pop()",
    "table = {}\ntable['k'] = {t}\ntable.update(j={t})\n{x} = table['j']",
    "match {n}:\n    case 1:\n        {x} = {t}\n    case _:\n        {x} = {t} + 1",
    "{x} = {t} if {n} else {t}",
    "{x} = {t}; {x} = {t}",
    "global_name = 'x'\n{x} = {t}",
    "print_me = f'{1 + 1}'\n{x} = {t}",
    "unused = {t}",
    "leaf({t})",
    "{t}.add({t})",
    "pass",
    "(walrus := {t})\n{x} = walrus + 1",
    "device = {t}.device\n{x} = torch.ones(4, device=device) * {t}",
    "shape = {t}.shape\n{x} = {t}.view(shape)\n{x} = {t}.view(*[4, 4]).reshape(shape[0], shape[1])",
    "shape = {t}.shape\n{x} = torch.zeros(shape) + {t}",
    "shape = {t}.shape\n{x} = {t}.view(shape[0], -1)",
)  # fmt: skip

OF_SELF = (
    "if self.flag:\n    {x} = {t} + 3",
    "if self.training:\n    {x} = {t} + 5",
    "tmp = {t}\nfor one in self.children():\n    tmp = tmp + 1\n{x} = tmp",
    "tmp = {t}\nfor name, one in self.named_parameters():\n    tmp = tmp + one.sum()\n{x} = tmp",
    "tmp = {t}\nfor one in self.buffers():\n    tmp = tmp * one.float().mean()\n{x} = tmp",
    "{x} = self.helper({t}, {t})",
    "{x} = self.of_class({t})",
    "{x} = self.of_none({t})",
    "{x} = self.recorded",
    "{x} = F.dropout({t}, 0.0, self.training)",
    "{x} = getattr(self, 'helper')({t}, b={t})",
    "{x} = {t} * self.shared.to({t})",
    "{x} = {t} + self.listed[0] + self.listed[1]",
    "self.kept = {t}",
    "{x} = super().__getattribute__('helper')({t}, {t})",
)

METHODS = (
    "shared = torch.ones(4)",
    "listed = [torch.ones(1), 2.0]",
    "",
    "def helper(self, a, b=1):",
    "    return a * 2 + b",
    "",
    "@classmethod",
    "def of_class(cls, a):",
    "    return a + cls.shared",
    "",
    "@staticmethod",
    "def of_none(a):",
    "    return a.cos()",
    "",
    "@property",
    "def recorded(self):",
    "    return torch.full((4, 4), 2.0)",
    "",
)

ATTRIBUTES = (
    Attribute(
        "self.{a} = nn.Linear(4, 4)",
        (
            "self.{a}({t})", "self.{a}(input={t})", "F.linear({t}, self.{a}.weight, self.{a}.bias)",
            "self.{a}.forward({t})",
            "({t} @ self.{a}.weight.t())", "self.{a}.weight + {t}", "getattr(self, '{a}')({t})",
            "self.{a}.bias.add({t})",
            "{t} * self.{a}.in_features", "self.{a}.weight.data", "{t} + self.{a}.weight.shape[0]",
        ),
    ),
    Attribute("self.{a} = nn.LayerNorm(4)", ("self.{a}({t})", "self.{a}(self.{a}({t}))", "{t} * self.{a}.eps")),
    Attribute("self.{a} = nn.ReLU(inplace=True)", ("self.{a}({t}.clone())", "self.{a}({t} + 0)")),
    Attribute("self.{a} = nn.Dropout(0.0)", ("self.{a}({t})",)),
    Attribute("self.{a} = nn.Identity()", ("self.{a}({t})", "self.{a}(*[{t}])")),
    Attribute("self.{a} = nn.GELU()", ("self.{a}({t})",)),
    Attribute("self.{a} = nn.BatchNorm1d(4)", ("self.{a}({t})",)),
    Attribute("self.{a} = nn.Embedding(9, 4)", ("self.{a}({t}.abs().long())[0]", "self.{a}.weight[:4] + {t}")),
    Attribute(
        "self.{a} = nn.MultiheadAttention(4, 2)",
        ("self.{a}({t}, {t}, {t})[0]", "self.{a}({t}, {t}, {t}, need_weights=False)[0]"),
    ),
    Attribute("self.{a} = nn.LSTM(4, 4)", ("self.{a}({t})[0]", "self.{a}({t}, None)[1][0] + {t}")),
    Attribute(
        "self.{a} = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Sequential(Inner()))",
        ("self.{a}({t})", "self.{a}[0]({t})", "self.{a}[2]({t})", "self.{a}[-1][0]({t})", "self.{a}[:2]({t})"),
        ("for one in self.{a}:\n    {x} = {t} + 1",),
    ),
    Attribute(
        "self.{a} = nn.Sequential(collections.OrderedDict([('first', nn.Tanh()), ('add', nn.Linear(4, 4))]))",
        ("self.{a}({t})", "self.{a}.first({t})", "self.{a}.add({t})"),
    ),
    Attribute(
        "self.{a} = nn.ModuleList([nn.Linear(4, 4), Inner()])",
        ("self.{a}[0]({t})", "self.{a}[1]({t}, {t})", "self.{a}[-1]({t})", "{t} * len(self.{a})"),
    ),
    Attribute(
        "self.{a} = nn.ModuleDict({'add': nn.Linear(4, 4), 'x': nn.Sigmoid()})",
        ("self.{a}['add']({t})", "self.{a}.x({t})", "self.{a}[list(self.{a})[0]]({t})"),
    ),
    Attribute(
        "self.{a} = nn.ParameterList([nn.Parameter(torch.ones(4)), nn.Parameter(torch.zeros(4))])",
        ("self.{a}[0] + {t}", "(self.{a}[1] * {t})"),
    ),
    Attribute("self.{a} = nn.ParameterDict({'k': nn.Parameter(torch.ones(4, 4))})", ("self.{a}['k'] * {t}",)),
    Attribute(
        "self.{a} = nn.Parameter(torch.arange(16.0).reshape(4, 4))",
        (
            "self.{a} + {t}", "({t} * self.{a})", "self.{a}.t() + {t}", "self.{a}", "self.{a}[0] + {t}",
            "{t} + self.{a}.shape[0]",
            "{t}.view(self.{a}.shape)", "self.{a} + self.{a}", "leaf(self.{a}, [self.{a}])", "{t} * self.{a}.dim()",
            "{t} + len(self.{a})", "self.{a}.sum() + {t}",
        ),
    ),
    Attribute(
        "self.register_buffer('{a}', torch.ones(4))",
        ("self.{a} + {t}", "({t} - self.{a})", "self.{a}.exp() + {t}", "torch.cat([self.{a}[None], {t}])[:4]",
        "{t} * self.{a}.size(0)"),
        ("self.{a}.add_(1)", "self.{a} = self.{a} + 1"),
    ),
    Attribute("self.register_buffer('{a}', torch.zeros(4), persistent=False)", ("self.{a} * {t}",)),
    Attribute("self.{a} = torch.full((4,), 3.0)", ("self.{a} + {t}", "{t}.mul(self.{a})", "leaf({t}, self.{a})")),
    Attribute("self.{a} = None", ("(self.{a} or {t})", "({t} if self.{a} is None else self.{a})",
    "leaf({t}, self.{a})")),
    Attribute("self.{a} = {n}", ("self.{a} * {t}", "leaf({t}, mode=self.{a})", "torch.mul({t}, self.{a})")),
    Attribute("self.{a} = [1, 2.0, 'three']", ("{t} + self.{a}[0]", "leaf({t}, mode=self.{a})",
    "{t} * sum(self.{a}[:2])")),
    Attribute("self.{a} = {'k': 2, 'j': (1, 2)}", ("{t} + self.{a}['k']", "leaf({t}, mode=self.{a})")),
    Attribute("self.{a} = torch.relu", ("self.{a}({t})",)),
    Attribute("self.{a} = F.gelu", ("self.{a}({t})",)),
    Attribute("self.{a} = leaf", ("self.{a}({t})", "self.{a}({t}, b={t})")),
    Attribute("self.{a} = plain", ("self.{a}({t})", "self.{a}({t}, {t}, scale=1.0)")),
    Attribute("self.{a} = functools.partial(plain, b=2)", ("self.{a}({t})",)),
    Attribute(
        "self.{a} = Inner()",
        (
            "self.{a}({t})", "self.{a}({t}, {t})", "self.{a}({t}, b={t})", "self.{a}({t}, scale={n})",
            "self.{a}.joined({t}, {t})",
            "self.{a}.linear({t})", "self.{a}.linear.weight + {t}", "self.{a}.shift * {t}", "self.{a}.doubled + {t}",
            "self.{a}.still({t})", "self.{a}.gain * {t}", "self.{a}.forward({t})", "self.{a}({t}, more={t})",
        ),
    ),
    Attribute("self.{a} = Deep()", ("self.{a}({t})[0]", "self.{a}({t})[1]['last']", "self.{a}.blocks[1]({t})")),
    Attribute("self.{a} = Several()", ("self.{a}({t}, {t})", "self.{a}({t}, k={t}, j={n})")),
    Attribute("self.{a} = torch.jit.script(nn.Linear(4, 4))", ("self.{a}({t})",)),
    Attribute("self.{a} = nn.Flatten(0)", ("self.{a}({t}).view(4, 4)",)),
    Attribute(
        "self.{a} = nn.Linear(4, 4); self.{a}.register_forward_hook(lambda m, i, o: o * 2)",
        ("self.{a}({t})", "self.{a}.weight + {t}"),
    ),
    Attribute(
        "self.{a} = Inner(); "
        "self.{a}.register_forward_hook(lambda m, i, o: o + i[0])", ("self.{a}({t})", "self.{a}({t}, {t})")
    ),
    Attribute(
        "self.{a} = Inner(); "
        "self.{a}.register_forward_pre_hook(lambda m, a, k: (a, {**k, 'scale': 3.0}), with_kwargs=True)",
        ("self.{a}({t})", "self.{a}({t}, scale=1.0)"),
    ),
    Attribute(
        "self.{a} = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))", ("self.{a}({t})", "self.{a}.weight + {t}")
    ),
    Attribute("self.{a} = nn.utils.spectral_norm(nn.Linear(4, 4)).eval()", ("self.{a}({t})", "self.{a}.weight + {t}")),
    Attribute(
        "self.{a} = nn.Linear(4, 4); nn.utils.parametrize.register_parametrization(self.{a}, 'weight', Doubling())",
        ("self.{a}({t})", "self.{a}.weight + {t}", "self.{a}.parametrizations.weight.original + {t}"),
    ),
    Attribute("self.{a} = self.again = nn.Linear(4, 4)", ("self.{a}({t})", "self.again({t})",
    "self.again.weight + {t}")),
    Attribute(
        "self.{a} = Asked()",
        (
            "self.{a}({t})", "self.{a}({t}, mode='slow')", "self.{a}({t}, kind=Mode.SLOW)", "{t} * self.{a}.answer",
            "self.{a}.kept + {t}",
        ),
    ),
    Attribute("self.{a} = [nn.Linear(4, 4)]", ("self.{a}[0]({t})",)),
    Attribute("self.{a} = nn.Linear(4, 4).double()", ("self.{a}({t}.double())",)),
    Attribute("self.{a} = lambda v: v * 2", ("self.{a}({t})",)),
    Attribute("self.{a} = Mode.SLOW", ("({t} if self.{a} is Mode.FAST else {t} - 1)",)),
    Attribute("self.{a} = Pair(torch.ones(4), 3)", ("self.{a}.left + {t}", "{t} * self.{a}.right")),
    Attribute("self.{a} = nn.GRUCell(4, 4)", ("self.{a}({t}, {t})",)),
    Attribute("self.{a} = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0)", ("self.{a}({t}[None])[0]",)),
)  # fmt: skip

REFUSED = (
    "if {t}.sum() > 0:\n    {x} = {t}",
    "if {t}:\n    {x} = {t}",
    "while {t}.sum() > 0:\n    {x} = {t}",
    "assert {t}.size(0) == 4",
    "assert {t}.ndim == 2, 'rank'",
    "{x} = {t} if {s} > 3 else {t}",
    "for one in {t}:\n    {x} = one",
    "for i in range({t}.size(0)):\n    {x} = {t} + i",
    "for i, one in enumerate({t}):\n    {x} = one",
    "one, two = [*{t}.shape]",
    "one, *others = {t}.shape",
    "{x} = torch.zeros(*{t}.shape)",
    "{x} = {t}.view(*{t}.shape[:1], 4)",
    "{x} = int({t}.sum()) + {t}",
    "{x} = float({t}.sum()) + {t}",
    "{x} = [1, 2, 3, 4][{t}.dim()] + {t}",
    "{x} = {t} * max({t}.size(0), 2)",
    "{x} = {t} * min({t}.size(0), {t}.size(1))",
    "{x} = {t}.clone()\n{v}[0] = 1",
    "{v}[:, 0] = {t}[:, 0]",
    "{v}.weight = {t}",
    "del {v}[0]",
    "{x} = {t} and {t}",
    "{x} = not {t}.sum()",
    "{x} = 0 < {t}.size(0) < 9",
    "{x} = 4 in {t}.shape",
    "{x} = {t} in [{t}]",
    "{x} = sorted([{t}, {t}])",
    "{x} = any([{t}.sum() > 0])",
    "{x} = dict({t})",
    "{x} = {**{t}}",
    "{x} = plain(**{t})",
    "{x} = torch.tensor({t})",
    "{x} = torch.tensor([{s}, {t}.size(0)])",
    "{x} = torch.relu(object())",
    "{x} = torch.relu(Mode.FAST)",
    "{x} = torch.relu({1, 2})",
    "{x} = leaf({t}, mode={{t}: 1})",
    "{x} = leaf({t}, mode=print)",
    "{x} = leaf({t}, mode=b'x')",
    "{x} = leaf({t}, mode=Mode.FAST)",
    "{x} = nn.Linear(4, 4)({t})",
    "{x} = {t} + nn.Parameter(torch.ones(4))",
    "{x} = list({t})",
    "{x} = tuple({t}.shape)",
    "{x} = {t} + sum({t})",
    "{x} = math.gcd({t}.size(0), 2) + {t}",
    "{x} = 'x' * {t}.size(0)",
    "{x} = [0] * {t}.size(0)",
    "{x} = '%d' % {t}.size(0)",
    "{x} = round({t})",
    "{x} = complex({t})",
    "{x} = {t}.undefined_method()",
    "raise ValueError('by hand')",
    "undefined_name",
    "{x} = torch.no_such_function({t})",
    "{x} = torch.vmap(torch.relu)({t})",
    "{x} = torch.cond({t}.sum() > 0, torch.sin, torch.cos, ({t},))",
    "{x} = range({s}, {t}.size(0))",
    "{x} = divmod({t}, 2)[0]",
    "{x} = copy.deepcopy({t})",
    "{x} = hash({t}) * 0 + {t}",
    "{x} = {t} << 'x'",
    "with {t}:\n    pass",
    "{x} = (i for i in {t})\n{x} = next({v})",
    "match {t}.size(0):\n    case 4:\n        {x} = {t}",
    "match {t}:\n    case [one, two]:\n        {x} = one",
    "for row in rows_of({t}):\n    {x} = row\nfor row in {t}.unbind():\n    {x} = row",
    "for one in {t}.split(2):\n    {x} = one",
    "for i, one in enumerate({t}.chunk(2)):\n    {x} = one * i",
    "{x} = torch.cat([one * 2 for one in {t}.chunk(2)])",
    "{x} = '{:.2f}'.format({t}.sum())",
    "{x} = '%s %d' % ({t}, {t}.size(0))",
    "{x} = math.ceil({t}.size(0) / 2)",
    "{x} = math.prod({t}.shape)",
    "{x} = math.sqrt({t})",
    "{x} = {t}[{t}.size(0) // 2 :][range({t}.size(0))]",
    "{x} = {t} if {t}.shape == (4, 4) else {t} + 1",
    "{x} = {t} if {t}.dtype == torch.float32 else {t}.float()",
    "{x} = {t} if {t}.is_cuda else {t} + 1",
    "{x} = {t} if isinstance({t}.shape[0], int) and {t}.shape[0] else {t} - 1",
    "{x} = torch.Size([{t}.size(0), 4])",
    "{x} = {t}.view(torch.Size({t}.shape))",
    "{x} = torch.zeros([{s}] * {t}.dim())",
    "{x} = {t}.tolist()\n{x} = {v}[0]",
    "{x} = {t}.item() if {t}.numel() == 1 else {t}",
    "{x} = {t}.numpy() + 1\nif {v}.any():\n    {x} = {t}",
    "{v}[{t} > 0] = 0",
    "{v}[1:3] *= 2",
    "{v}[0], {v}[1] = {t}[1], {t}[0]",
    "{x} = torch.utils.checkpoint.checkpoint(lambda v: v * 2, {t}, use_reentrant=True)",
    "{x} = torch.func.grad(lambda v: v.sum())({t})",
    "{x} = torch.jit.script(nn.Linear(4, 4))({t})",
    "{x} = nn.Sequential(nn.Linear(4, 4))({t})",
    "{x} = Pair(*{t})",
    "{x} = set([{t}, {t}]).pop() + sorted({t}.shape)[0]",
    "{x} = min([{t}, {t}], key=lambda v: v.sum())",
    "{x} = list(zip({t}, {t}))[0][0]",
    "{x} = list(filter(None, [{t}]))[0]",
    "{x} = {t}.size(0).bit_length()\n{x} = range({v})",
    "{x} = bytes({t})",
    "{x} = isinstance({t}.size(0), int) and (1,) * {t}.size(0)",
    "raise StopIteration({t})",
    "assert False, f'{1 + 1}'",
    "{x} = {1: {t}}[{t}.size(0)]",
    "{x} = {t}.shape.numel() > 3 and {t}",
    "{x} = any(size > 3 for size in {t}.shape)",
    "{x} = {t} if {t}.ndim > 3 else {t} + 1",
)

RETURNED = (
    "{v}", "{t}", "({v}, {t})", "[{v}, {v}]", "{'x': {t}, 'y': [{v}, {n}]}", "Pair({v}, {t})", "Point({v}, 1)", "None",
    "{v}, {s}", "({t},)", "{t}.shape", "slice({s}, None)", "(({v}, [{v}]), {'k': ({v},)})", "{n}", "()", "[]",
    "{v}.sum(), 'text'",
    "Box({v})", "Pair([{v}], {'z': {v}})", "{t}.max(0)", "torch.float32, {v}", "({v}, {v}, {v})",
)  # fmt: skip

RETURN_ANNOTATIONS = (
    "", "", "", " -> Tensor", " -> torch.Tensor", " -> 'Tensor'", " -> Optional[Tensor]", " -> Tuple[Tensor, ...]",
    " -> Dict[str, Any]", " -> Any", " -> List[Tensor]", " -> tuple[Tensor, int]", " -> Tensor | None", " -> Pair",
    " -> None",
)  # fmt: skip

SIGNATURES = (
    Signature("x, y", ("x", "y")),
    Signature("x: Tensor, y: torch.Tensor", ("x", "y")),
    Signature("x: 'Tensor', y: Optional[Tensor] = None", ("x",), ("y = {v} if y is None else y",)),
    Signature("input, add_1", ("input", "add_1")),
    Signature("relu, _", ("relu", "_")),
    Signature("self_1, torch_1, /", ("self_1", "torch_1")),
    Signature("x, /, y, *, z=None", ("x", "y")),
    Signature("x, *, scale: float = 2.0", ("x",), ("{x} = {v} * scale",), "(T(1),)", "{'scale': 3.0}"),
    Signature("x, n=3, mode='mean'", ("x",), ("{x} = {v} * n",), "(T(1), 2)", "{'n': 2}"),
    Signature("x, n: int = 3, shape: Tuple[int, int] = (4, 4)", ("x",), ("{x} = {v}.view(shape) + n",), "(T(1),)"),
    Signature("x, flag: bool = False", ("x",), ("{x} = {v} + flag",), "(T(1),)"),
    Signature("x, flag=True", ("x",), ("if flag:\n    {x} = {v} + 1",), "(T(1), True)", "{'flag': True}"),
    Signature("x, flag=None", ("x",), ("if flag is None:\n    {x} = {v} + 1",), "(T(1), None)", "{'flag': None}"),
    Signature("x, kind='a'", ("x",), ("{x} = {v} + len(kind)",), "(T(1), 'abc')", "{'kind': 'abc'}"),
    Signature("*args", ("x", "y"), ("x = args[0]", "y = args[1]"), "(T(1), T(2))"),
    Signature("x, *args, **kwargs", ("x",), ("{x} = {v} + args[0]", "{x} = {v} + kwargs['k']"), "(T(1), T(2))"),
    Signature("x, **kwargs", ("x", "y"), ("y = kwargs.get('y')", "x = x + 1"), "(T(1),)"),
    Signature("x: List[Tensor], y: Dict[str, Tensor]", ("a", "b"), ("a = x[0]", "b = y['k']"), "([T(1)], {'k': T(2)})"),
    Signature(
        "x, pair", ("x", "y", "b"), ("y, b = pair",), "(T(1), T(2), T(3))", "{'pair': (engine.PH, engine.PH)}",
    ),
    Signature(
        "x, table", ("x", "y"), ("y = table['a'] * table['b']",), "(T(1), T(2), 2)",
        "{'table': {'a': engine.PH, 'b': 2}}",
    ),
    Signature(
        "x, deep", ("x", "y"), ("y = deep[0]['k'][1]",), "(T(1), T(2), T(3))",
        "{'deep': [{'k': (engine.PH, engine.PH)}]}",
    ),
    Signature("x, p", ("x", "y"), ("y = p.left + p.right",), "(T(1), T(2), T(3))", "{'p': Pair(engine.PH, engine.PH)}"),
    Signature("x, y: Tensor = torch.ones(4)", ("x", "y"), (), "(T(1), T(2))"),
    Signature("x, fn=torch.relu", ("x", "y"), ("y = fn(x)",), "(T(1), torch.sigmoid)", "{'fn': torch.sigmoid}"),
    Signature("x, inf=float('inf'), nan=float('nan')", ("x",), ("{x} = {v}.clamp(max=inf)",), "(T(1),)"),
    Signature("x, p: Pair, cb: Callable[[int], str] = None", ("x", "y"), ("y = p.left",), "(T(1), Pair(T(2), 3))"),
    Signature("x: Union[int, Tensor], y: 'Undefined' = 1", ("x",), ("{x} = {v} + y",), "(T(1),)"),
)  # fmt: skip

TRACERS = (
    *(("return engine.Tracer()",),) * 6,
    (
        "class Through(engine.Tracer):",
        "    def is_leaf_module(self, m, name):",
        "        return False",
        "return Through()",
    ),
    (
        "class Whole(engine.Tracer):",
        "    def is_leaf_module(self, m, name):",
        "        return isinstance(m, Inner) or super().is_leaf_module(m, name)",
        "return Whole()",
    ),
    ("return engine.Tracer(autowrap_functions=(plain, Inner.still))",),
    ("return engine.Tracer(autowrap_modules=(math, functools))",),
    ("return engine.Tracer(param_shapes_constant=True)",),
    (
        "class Named(engine.Tracer):",
        "    def path_of_module(self, mod):",
        "        return super().path_of_module(mod)",
        "    def create_node(self, kind, target, args, kwargs, name=None, type_expr=None):",
        "        return super().create_node(kind, target, args, kwargs, name and f'{name}_named', type_expr)",
        "return Named()",
    ),
    (
        "class Patient(engine.Tracer):",
        "    def to_bool(self, obj):",
        "        return True",
        "    def iter(self, obj):",
        "        return iter([obj[0], obj[1]])",
        "    def keys(self, obj):",
        "        return ['k']",
        "return Patient()",
    ),
)

SETTINGS = (
    *("{}",) * 6,
    "{'proxy_buffer_attributes': True}",
    "{'trace_asserts': True}",
    "{'param_shapes_constant': True}",
    "{'check_mutable_operations': True}",
)
