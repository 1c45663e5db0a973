"""Arguments that are inferred such that inputs can be found for what they build."""

import importlib
import operator
import re
import time

import pytest

from fxworker.complaints import complaint_of
from fxworker.patience import OutOfPatience, patience
from fxworker.stock import SCORES, TAKES_ANY, any_call, to_call
from fxworker.variations import as_tuple, nested
from tests.worker.harness import of

RESIDUAL = """import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, inplanes, planes):
        super().__init__()
        self.reduce = nn.Conv2d(inplanes, planes, 1)
        self.expand = nn.Conv2d(planes, 4 * planes, 1)

    def forward(self, x):
        return x + self.expand(self.reduce(x))
"""

FUSED = """import torch
from torch import nn


class Fused(nn.Module):
    def __init__(self, in_ch, out_ch):
        super().__init__()
        self.weigh = nn.Conv2d(in_ch, out_ch, 3, padding=1)

    def forward(self, x):
        return (x * self.weigh(x).softmax(1)).sum(1)
"""

WRAPPED = """import torch
from torch import nn


class Wrapper(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.inner = net

    def forward(self, x):
        return self.inner(x, mask=None, return_hidden=True) * 2
"""

WRAPPING = """import torch
from torch import nn


class Kept(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net

    def forward(self, *args, record=False, **kwargs):
        return self.net(*args, **kwargs)


class Pair(nn.Module):
    def __init__(self, f, g, j, k):
        super().__init__()
        self.f = Kept(f)
        self.g = Kept(g)
        self.j = Kept(j)
        self.k = Kept(k)

    def forward(self, x, m, shape=None, mask=None):
        x1, x2 = torch.chunk(x, 2, dim=2)
        m1, m2 = torch.chunk(m, 2, dim=2)
        y1 = x1 + self.f(x2, shape=shape, record=True, mask=mask)
        y2 = x2 + self.g(y1, shape=shape, record=True)
        n1 = m1 + self.j(m2, shape=shape, record=True, mask=mask)
        n2 = m2 + self.k(n1, shape=shape, record=True)
        return torch.cat((y1, y2), dim=2), torch.cat((n1, n2), dim=2)


class Losses(nn.Module):
    def __init__(self, loss_funcs):
        super().__init__()
        assert isinstance(loss_funcs, list)
        self.loss_funcs = [each() for each in loss_funcs]

    def forward(self, pred, targ):
        loss = torch.zeros_like(targ)
        for loss_func in self.loss_funcs:
            loss = loss + loss_func(pred, targ)
        return loss.mean()
"""

PADDED = """import torch
import torch.nn.functional as F
from torch import nn


class Padding(nn.Module):
    def __init__(self, pad):
        super().__init__()
        self.pad = pad

    def forward(self, x):
        return F.pad(x[:, :, ::2, ::2], (0, 0, 0, 0, self.pad, self.pad))


class Block(nn.Module):
    def __init__(self, in_planes, planes, stride=1):
        super().__init__()
        self.first = nn.Conv2d(in_planes, planes, 3, stride, 1)
        self.second = nn.Conv2d(planes, planes, 3, 1, 1)
        self.shortcut = nn.Sequential()
        if stride != 1 or in_planes != planes:
            self.shortcut = Padding(planes // 4)

    def forward(self, x):
        return self.second(self.first(x).relu()) + self.shortcut(x)
"""

WIDENED = """from torch import nn


class Stages(nn.Module):
    def __init__(self, block, layers):
        super().__init__()
        self.inplanes = 8
        self.enter = nn.Conv2d(3, 8, 3)
        self.first = self.make(block, 8, layers[0])
        self.second = self.make(block, 16, layers[1], stride=2)
        self.head = nn.Linear(16 * block.expansion, 5)

    def make(self, block, planes, blocks, stride=1):
        downsample = None
        if stride != 1 or self.inplanes != planes * block.expansion:
            downsample = nn.Conv2d(self.inplanes, planes * block.expansion, 1, stride)
        layers = [block(self.inplanes, planes, stride, downsample)]
        self.inplanes = planes * block.expansion
        layers += [block(self.inplanes, planes) for _ in range(1, blocks)]
        return nn.Sequential(*layers)

    def forward(self, x):
        return self.head(self.second(self.first(self.enter(x))).mean((2, 3)))
"""

PRETRAINED = """from torch import nn


class Pretrained(nn.Module):
    def __init__(self, options, modules=None):
        super().__init__()
        self.mods = nn.ModuleDict(modules)
        self.rate = options["rate"]


class Classifier(Pretrained):
    def forward(self, wavs, lengths):
        features = self.mods.normalize(self.mods.compute(wavs * self.rate), lengths)
        return self.mods.classify(features).softmax(-1)
"""

AUTOREGRESSIVE = """from torch import nn
from torch.nn import functional as F


class Wrapper(nn.Module):
    def __init__(self, net):
        super().__init__()
        self.net = net
        self.longest = net.longest

    def forward(self, x, **kwargs):
        assert x.dim() == 2
        scores = self.net(x[:, :-1], **kwargs)
        return F.cross_entropy(scores.reshape(x.shape[0], -1, x.shape[1] - 1), x[:, 1:])
"""


AROUND = """from torch import nn


class Around(nn.Module):
    def __init__(self, fn):
        super().__init__()
        self.fn = fn

    def forward(self, x):
        out, *_, loss = self.fn(x.permute(0, 2, 3, 1))
        return out.permute(0, 3, 1, 2), loss
"""

ATTENDING = """from torch import nn


class Attending(nn.Module):
    def __init__(self, attention: nn.Module, d_model: int, n_heads: int):
        super().__init__()
        self.inner_attention = attention
        self.query_projection = nn.Linear(d_model, d_model)
        self.n_heads = n_heads

    def forward(self, queries):
        queries = self.query_projection(queries).unflatten(-1, (self.n_heads, -1))
        out, weights = self.inner_attention(queries=queries, mask=None)
        return out.flatten(-2), weights
"""

STAGES = """import torch
from torch import nn


class Stages(nn.Module):
    def __init__(self, embed_dim: int, depths: list[int], num_heads: list[int]):
        super().__init__()
        self.first = nn.Conv2d(3, embed_dim, 4, 4)
        self.layers = nn.ModuleList(
            nn.Sequential(*(nn.Conv2d(embed_dim, embed_dim, 1, groups=heads) for _ in range(depth)))
            for depth, heads in zip(depths, num_heads, strict=True)
        )

    def forward(self, x):
        x = self.layers[1](self.layers[0](self.first(x)))
        return self.layers[3](self.layers[2](x))
"""

SMOOTHED = """import torch
from torch import nn


class Smoothed(nn.Module):
    def __init__(self, dim, box_size):
        super().__init__()
        self.mean = nn.AvgPool1d(box_size, 1, padding=(box_size - 1) // 2)
        self.mix = nn.Conv1d(dim, dim, 2, 2)

    def forward(self, x):
        x = self.mix(x)
        return torch.stack([x, self.mean(x)])
"""

HEADS = """import torch
from torch import nn


class Heads(nn.Module):
    def __init__(self, num_heads, head_dim):
        super().__init__()
        self.num_heads, self.head_dim = num_heads, head_dim
        self.values = nn.Linear(64, num_heads * head_dim)
        self.weight = nn.Parameter(torch.ones(6, head_dim, head_dim))

    def forward(self, x):
        values = self.values(x).unflatten(-1, (self.num_heads, self.head_dim))
        return torch.einsum("bhi,hij->bhj", values, self.weight)
"""

CALLED = """import torch
from torch import nn


class Scored(nn.Module):
    def __init__(self, scorer):
        super().__init__()
        self.scorer = scorer
        self.width = scorer.out_width

    def forward(self, x):
        return self.scorer(x, None) * self.width
"""


JUDGING = """import torch
from torch import nn


class Judging(nn.Module):
    def __init__(self, input_size, hidden_size, mlp_size):
        super().__init__()
        self.gru = nn.GRU(input_size, hidden_size, batch_first=True)
        self.layers = nn.ModuleList(nn.Linear(one, other) for one, other in zip(mlp_size[:-1], mlp_size[1:]))

    def forward(self, keys):
        batch, steps, _ = keys.shape
        x = torch.cat([self.gru(keys)[0], keys], -1).view(batch * steps, -1)
        for layer in self.layers:
            x = layer(x)
        return x.view(batch, steps).sigmoid()
"""


CHOOSING = """from torch import nn


class Choosing(nn.Module):
    def __init__(self, modules, at=-1):
        super().__init__()
        assert len(modules) == 2
        self.one = modules[0]
        self.other = modules[1]
        self.at = at

    def forward(self, x):
        return self.one(x) if self.at == -1 else self.other(x)
"""


EXPORTED = """from torch import nn


class Exported(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.heads = model.heads
        self.queries = model.queries

    def forward(self, x):
        return self.projected(x).unflatten(-1, (self.heads, -1))

    def projected(self, x):
        return self.queries(x)
"""

GUARDED = """from torch import nn


class Guarded(nn.Module):
    def __init__(self, width, autocast_ctx):
        super().__init__()
        self.scores = nn.Linear(width, 8)
        self.autocast_ctx = autocast_ctx

    def forward(self, x):
        with self.autocast_ctx():
            return self.scores(x)
"""

JOINED = """
from torch import nn

class Joined(nn.Sequential):
    def __init__(self, first, second):
        super().__init__(first, second)

    def forward(self, x):
        return self[1](self[0](x), scale=True)
"""

PASSING_ON = """
import torch
from torch import nn

class PassingOn(nn.Module):
    def __init__(self, layer):
        super().__init__()
        self.layer = layer
        self.embed = nn.Embedding(10, 8)
        self.head = nn.Linear(8, 4)

    def forward(self, x, tokens, mask):
        x, tokens, mask = self.layer(x, tokens, mask=mask)
        assert mask.dtype == torch.bool
        return self.head(x + self.embed(tokens)).masked_fill(~mask[..., None], 0.0)
"""

FLOWING = """from torch import nn


class Flowing(nn.Module):
    def __init__(self, base, flows):
        super().__init__()
        self.base = base
        self.flows = nn.ModuleList(flows)

    def forward(self, z):
        for flow in self.flows:
            z = flow(z, context=None)
        return z
"""

COUPLED = """import torch
from torch import nn


class Coupled(nn.Module):
    def __init__(self, features, net_create_fn):
        super().__init__()
        self.half = features // 2
        self.net = net_create_fn(self.half, 3 * self.half)

    def forward(self, inputs, context=None):
        rest, changed = inputs[:, :self.half], inputs[:, self.half:]
        scale, shift, bias = self.net(rest, context).view(inputs.shape[0], 3, self.half).unbind(1)
        return torch.cat((rest, changed * scale + shift + bias), 1)
"""

PERMUTING = """import torch
from torch import nn


class Permuting(nn.Module):
    def __init__(self, permutation, dim=1):
        super().__init__()
        if permutation.ndimension() != 1:
            raise ValueError("Permutation must be a 1D tensor.")
        self.dim = dim
        self.register_buffer("order", permutation)

    @staticmethod
    def permuted(inputs, order, dim):
        if inputs.shape[dim] != len(order):
            raise ValueError("Dimension {} in inputs must be of size {}.".format(dim, len(order)))
        return torch.index_select(inputs, dim, order)

    def forward(self, inputs):
        return self.permuted(inputs, self.order, self.dim)
"""

TIED = """from torch import nn


class Tied(nn.Module):
    def __init__(self, tensor, transpose=False):
        super().__init__()
        self.tensor = tensor
        self.transpose = transpose

    def forward(self, x):
        return x @ (self.tensor.t() if self.transpose else self.tensor)
"""


@pytest.mark.parametrize(
    ("text", "construct", "inputs"),
    [
        (RESIDUAL, "Block(inplanes=256, planes=64)", "torch.randn(2, 256, 224, 224)"),
        (FUSED, "Fused(in_ch=64, out_ch=64)", "torch.randn(2, 64, 224, 224)"),
    ],
)
def test_sizes_that_do_not_agree_change_the_arguments_that_they_come_from(worker, model, text, construct, inputs):
    (target,) = worker.trace(model(text)).targets
    assert (target.status, target.construct.expression, target.construct.source) == ("complete", construct, "inferred")
    assert (target.inputs.expression, target.inputs.source) == (inputs, "inferred")
    assert not [each for each in target.problems if each.code == "FX202"]


def test_what_stands_in_for_a_module_takes_what_it_is_called_with(worker, model):
    (target,) = worker.trace(model(WRAPPED)).targets
    assert target.status == "complete"
    assert target.inputs is not None
    assert not target.problems


@pytest.mark.parametrize("text", [ATTENDING, AROUND])
def test_what_stands_in_for_a_module_gives_as_many_values_as_are_taken(worker, model, text):
    (target,) = worker.trace(model(text)).targets
    assert target.status == "complete"
    assert "[:1] * 2" in target.construct.expression
    assert target.inputs is not None
    assert all(each.code == "FX003" for each in target.problems)


@pytest.mark.parametrize(
    "loop",
    [
        "for layer in self.layers",
        "for _at, layer in enumerate(self.layers)",
        "for _at, layer in zip((0, 1), self.layers)",
    ],
)
def test_what_stands_in_for_the_layers_of_a_loop_gives_as_many_values_as_are_taken(worker, model, loop):
    text = f"""import torch
from torch import nn


class Decoding(nn.Module):
    def __init__(self, layers: nn.ModuleList, dim: int = 16):
        super().__init__()
        self.layers = layers
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        {loop}:
            x, _weights, _cache = layer(states=x, mask=None)
        return self.out(x)
"""
    (target,) = worker.trace(model(text)).targets
    assert target.construct.expression.startswith("Decoding(layers=torch.nn.ModuleList([type(")
    assert target.construct.expression.count("[:1] * 3") >= 2
    assert target.inputs is not None
    assert not target.problems


def test_lists_that_have_something_for_each_layer_get_longer_together(worker, model):
    (target,) = worker.trace(model(STAGES)).targets
    assert "depths=[2, 2, 2, 2], num_heads=[4, 4, 4, 4]" in target.construct.expression
    assert target.inputs is not None


def test_sides_that_are_off_by_one_become_odd(worker, model):
    (target,) = worker.trace(model(SMOOTHED)).targets
    assert target.construct.expression == "Smoothed(dim=64, box_size=65)"
    assert target.inputs is not None


def test_sizes_that_a_sum_over_products_names_change_the_arguments(worker, model):
    (target,) = worker.trace(model(HEADS)).targets
    assert target.construct.expression == "Heads(num_heads=6, head_dim=16)"
    assert target.inputs is not None


def test_what_enters_is_as_wide_as_the_first_layer_and_what_comes_out_as_the_last(worker, model):
    (target,) = worker.trace(model(JUDGING)).targets
    assert re.search(r"mlp_size=[(\[]\d\d+, 1[)\]]", target.construct.expression)
    assert target.inputs is not None


def test_what_is_taken_out_of_a_list_and_called_is_a_module(worker, model):
    (target,) = worker.trace(model(CHOOSING)).targets
    assert target.construct.expression.count("torch.nn.Identity") == 2
    assert target.inputs is not None


def test_what_a_method_calls_that_forward_calls_is_a_module(worker, model):
    (target,) = worker.trace(model(EXPORTED)).targets
    assert "'queries': torch.nn.Identity()" in target.construct.expression
    assert target.inputs is not None


def test_what_stands_in_for_several_modules_takes_what_they_are_called_with():
    pairs = "[(torch.nn.Identity(), torch.nn.Identity())]"
    assert list(to_call(pairs, ())) == [f"[({any_call()}, {any_call()})]"]
    assert not list(to_call(f"[({any_call()}, {any_call()})]", ()))


def test_what_stands_in_for_several_classes_makes_what_takes_what_it_is_called_with():
    (several,) = to_call("[torch.nn.Identity, torch.nn.Identity]", ())
    assert several.count(TAKES_ANY) == 2
    assert not list(to_call(several, ()))


def test_a_block_that_cannot_change_its_width_gives_as_many_channels_as_it_takes(worker, model):
    target = of(worker.trace(model(PADDED)), "Block")
    widths = re.fullmatch(r"Block\(in_planes=(\d+), planes=(\d+)\)", target.construct.expression)
    assert widths[1] == widths[2]
    assert target.inputs is not None


def test_a_block_that_is_handed_in_changes_the_width_as_it_is_told(worker, model):
    target = of(worker.trace(model(WIDENED)), "Stages")
    assert "'expansion': 1" in target.construct.expression
    assert target.inputs is not None


def test_the_modules_that_code_reads_of_a_container_are_put_into_the_table_that_it_is_made_of(worker, model):
    target = of(worker.trace(model(PRETRAINED)), "Classifier")
    assert all(f"'{name}': type(" in target.construct.expression for name in ("normalize", "compute", "classify"))
    assert target.inputs is not None


def test_a_net_whose_result_is_compared_with_classes_gives_a_score_of_each(worker, model):
    (target,) = worker.trace(model(AUTOREGRESSIVE)).targets
    assert SCORES in target.construct.expression
    assert "torch.randint(0, 64" in target.inputs.expression


def test_parts_that_hand_on_what_they_are_called_with_are_replaced_together(worker, model):
    (target,) = (each for each in worker.trace(model(WRAPPING)).targets if each.qualname == "Pair")
    assert target.construct.expression.count(TAKES_ANY) == 4
    assert target.inputs is not None


def test_a_module_that_is_held_in_a_list_ends_no_search(worker, model):
    (target,) = (each for each in worker.trace(model(WRAPPING)).targets if each.qualname == "Losses")
    assert target.construct.expression.count(TAKES_ANY) == 2
    assert target.inputs is not None


def test_a_part_that_a_container_calls_by_its_place_takes_what_it_is_called_with(worker, model):
    (target,) = worker.trace(model(JOINED)).targets
    assert "second=type('Module'" in target.construct.expression
    assert target.inputs is not None


def test_what_is_unpacked_to_the_name_of_what_was_given_is_that(worker, model):
    (target,) = worker.trace(model(PASSING_ON)).targets
    assert "[each] for each in (0, 1, 2)" in target.construct.expression
    assert target.inputs is not None


def test_what_a_loop_calls_is_what_it_goes_through(worker, model):
    (target,) = worker.trace(model(FLOWING)).targets
    assert "flows=[type('Module'" in target.construct.expression
    assert target.inputs is not None


def test_what_is_joined_to_a_tuple_is_one():
    with pytest.raises(TypeError) as raised:
        operator.add((2,), 64)
    complaint = complaint_of(raised.value)
    assert nested("64", complaint) == ["(64,)"]
    assert complaint.is_of_tuple
    assert as_tuple("[64, 64]") == "(64, 64)"


def test_what_a_function_makes_takes_what_it_is_called_with(worker, model):
    (target,) = worker.trace(model(COUPLED)).targets
    assert "torch.nn.Linear.forward" in target.construct.expression
    assert target.inputs is not None


def test_what_tells_places_are_whole_numbers(worker, model):
    (target,) = worker.trace(model(PERMUTING)).targets
    assert target.construct.expression == "Permuting(permutation=torch.arange(64))"
    assert target.inputs is not None


def test_what_is_entered_by_with_is_a_context(worker, model):
    (target,) = worker.trace(model(GUARDED)).targets
    assert target.construct.expression == "Guarded(width=64, autocast_ctx=torch.no_grad)"
    assert target.status == "complete"
    assert not target.problems


def test_what_a_tensor_is_multiplied_with_as_a_matrix_is_one(worker, model):
    (target,) = worker.trace(model(TIED)).targets
    assert "tensor=torch.ones(" in target.construct.expression
    assert target.inputs is not None


def test_an_object_that_is_called_is_a_module(worker, model):
    (target,) = worker.trace(model(CALLED)).targets
    assert "'out_width'" in target.construct.expression
    assert target.inputs is not None


SAID = """import torch
from torch import nn


class Head(nn.Module):
    def __init__(self, dim, n_classes):
        super().__init__()
        self.fc = nn.Linear(dim, n_classes)

    def forward(self, x):
        return self.fc(x)


class Scaled(nn.Module):
    def __init__(self, net, scale):
        super().__init__()
        self.net, self.scale = net, scale

    def forward(self, x, **options):
        return self.net(x * self.scale, **options)


class Pair(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.first, self.second = nn.Linear(dim, 2 * dim), nn.Linear(3 * dim, dim)

    def forward(self, x):
        return self.second(self.first(x))


def main(given):
    head = Head(given.dim, given.classes)
    head(torch.randn(2, 100))
    scaled = Scaled(given.net, given.scale)
    scaled(torch.randn(2, 8), mask=torch.ones(2))
    pair = Pair(given.dim)
    pair(torch.randn(2, 64))
"""


def test_arguments_that_nobody_wrote_down_go_with_inputs_that_somebody_did(worker, model):
    targets = {each.qualname: each for each in worker.trace(model(SAID)).targets}
    head = targets["Head"]
    assert (head.construct.expression, head.inputs.expression) == ("Head(dim=100, n_classes=10)", "torch.randn(2, 100)")
    told = {name: [each.code for each in target.problems] for name, target in targets.items()}
    assert told == {"Head": [], "Scaled": ["FX003"], "Pair": ["FX201"]}


FIRST = """from torch import nn


class Net(nn.Module):
    def __init__(self, backbone):
        super().__init__()
        self.backbone = backbone
        self.width = backbone.width

    @property
    def device(self):
        return next(self.parameters()).device

    def forward(self, x):
        return self.backbone(x.to(self.device))
"""


def test_a_model_that_asks_for_its_first_parameter_has_one(worker, model):
    (target,) = worker.trace(model(FIRST)).targets
    assert target.inputs is not None
    assert "torch.nn.Linear" in target.construct.expression


MOVED = """import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder.to(dtype=torch.float32)
        self.encoder.reset_parameters()
        self.head = nn.Linear(8, 8)

    def forward(self, x, box=None):
        return self.head(self.encoder(x, box=box))
"""


def test_a_part_that_is_made_up_for_its_parameters_takes_what_it_is_called_with(worker, model):
    (target,) = worker.trace(model(MOVED)).targets
    assert target.inputs is not None
    assert "torch.nn.Linear" in target.construct.expression
    assert target.inputs.expression == "torch.randn(2, 8)"


def test_what_was_found_is_what_the_next_trace_begins_with(own_worker, model):
    path = model(RESIDUAL)
    first = own_worker.trace(path)
    again = own_worker.trace(path, text=RESIDUAL.replace("x + self", "2 * x + self"))
    ways = [each.targets[0].construct.expression for each in (first, again)]
    assert ways == ["Block(inplanes=256, planes=64)"] * 2
    assert again.timings.build < 100


def test_what_somebody_wrote_is_not_changed(worker, model):
    path = model(f"{RESIDUAL}\n\nmodel = Block(64, 64)\n")
    target = next(each for each in worker.trace(path).targets if each.qualname == "Block")
    assert target.construct is None or target.construct.expression != "Block(inplanes=256, planes=64)"


def test_a_model_that_contains_a_fitted_class_is_told_as_one_that_does(worker, model):
    text = f"""{RESIDUAL}

class Net(nn.Module):
    def __init__(self, inplanes, planes):
        super().__init__()
        self.first = nn.Conv2d(3, inplanes, 3)
        self.blocks = nn.Sequential(Block(inplanes, planes), Block(inplanes, planes))

    def forward(self, x):
        return self.blocks(self.first(x)).mean((2, 3))
"""
    targets = {each.qualname: each for each in worker.trace(model(text)).targets}
    assert targets["Net"].construct.expression == "Net(inplanes=256, planes=64)"
    assert targets["Net"].inputs.expression == "torch.randn(2, 3, 224, 224)"
    assert targets["Block"].enclosed_by == "Net"


def test_patience_within_patience_leaves_the_outer_one_running():
    def inner():
        with patience(5.0):
            pass
        time.sleep(5.0)

    with pytest.raises(OutOfPatience), patience(0.2):
        inner()


def test_what_is_imported_beyond_the_time_may_be_used(tmp_path, monkeypatch):
    (tmp_path / "slow_to_import.py").write_text("import time; time.sleep(0.5); late = 1")
    monkeypatch.syspath_prepend(str(tmp_path))
    with patience(0.3):
        found = importlib.import_module("slow_to_import").late
        time.sleep(0.1)
    assert found == 1


def test_the_shorter_patience_counts():
    begun = time.monotonic()
    with pytest.raises(OutOfPatience), patience(0.1), patience(5.0):
        time.sleep(5.0)
    assert time.monotonic() - begun < 3.0


BURNING = """import time

begun = time.process_time()
while time.process_time() < begun + 2.0:
    pass
"""

LATE = """from torch import nn


class Late(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.inner = inner
        self.outer = outer

    def forward(self, x):
        x = self.inner(x, mask=None)
        import burning

        return self.outer(x, scale=burning.begun)
"""


def test_what_is_imported_meanwhile_is_no_time_of_a_search_for_other_arguments(worker, model, tmp_path):
    path = model(LATE)
    (tmp_path / "burning.py").write_text(BURNING)
    (target,) = worker.trace(path).targets
    assert target.inputs is not None
    assert target.construct.expression.count("'forward': ") == 2


CUTTING = """from torch import nn


class Cutting(nn.Module):
    def __init__(self, dim: int, hidden: int, mixer: nn.Module):
        super().__init__()
        self.enter, self.mixer, self.leave = nn.Linear(dim, hidden), mixer, nn.Linear(hidden // 2, dim)

    def forward(self, x, mask):
        y, mask = self.mixer(self.enter(x), mask, cache=None)
        return self.leave(y), mask
"""

SIDES = """from torch import nn

DEFAULTS = {"kernel_size": (3, 3), "width": 16}


class Sides(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.conv = nn.Conv1d(config["width"], config["width"], config["kernel_size"])

    def forward(self, x):
        return self.conv(x)
"""

STEPS = """from torch import nn


class Steps(nn.Module):
    def __init__(self, width, kernel_size, stride, dilation, padding):
        super().__init__()
        self.conv = nn.Conv1d(width, width, kernel_size, stride=stride, padding=padding, dilation=dilation)

    def forward(self, x):
        x = x.view(x.shape[0], -1, 32)
        return x + self.conv(x)
"""


DOUBLED = """from torch import nn


class Encoder(nn.Module):
    def __init__(self, *, width, codes, biased=True, double_codes=True):
        super().__init__()
        self.conv = nn.Conv2d(3, width, 3, bias=biased)
        self.leave = nn.Conv2d(width, 2 * codes if double_codes else codes, 3)

    def forward(self, x):
        return self.leave(self.conv(x))


class Coder(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.encoder = Encoder(**options)
        self.quantize = nn.Conv2d(options["codes"], 8, 1)

    def forward(self, x):
        return self.quantize(self.encoder(x))
"""


def test_a_flag_that_doubles_a_size_is_taken_the_other_way_round(worker, model):
    coder = of(worker.trace(model(DOUBLED)), "Coder")
    assert coder.construct.expression == "Coder(options={'width': 64, 'codes': 3, 'double_codes': False})"
    assert coder.inputs is not None


def test_a_part_that_is_called_with_more_may_be_a_gate(worker, model):
    (target,) = worker.trace(model(CUTTING)).targets
    assert "[0][..., :" in target.construct.expression
    assert (target.inputs is not None, target.problems) == (True, ())


def test_a_layer_with_one_side_has_one(worker, model):
    (target,) = worker.trace(model(SIDES)).targets
    assert "'kernel_size': 3" in target.construct.expression
    assert target.inputs is not None


def test_what_is_added_to_its_input_goes_in_steps_of_one(worker, model):
    (target,) = worker.trace(model(STEPS)).targets
    assert "stride=1, dilation=1" in target.construct.expression
    assert target.inputs is not None


PARTS = """from torch import nn


class Listening(nn.Module):
    def __init__(self, net, width, layer=-2):
        super().__init__()
        self.net, self.layer = net, layer
        self.head = nn.Linear(width, 4)

    def forward(self, x):
        children = [*self.net.children()]
        seen = []
        handle = children[self.layer].register_forward_hook(lambda _part, _given, result: seen.append(result))
        self.net(x)
        handle.remove()
        return self.head(seen[0])
"""

TWICE = """from torch import nn


class Louder(nn.Module):
    def __init__(self, width, upsample_rates, upsample_kernel_sizes):
        super().__init__()
        self.rates = upsample_rates
        self.ups = nn.ModuleList(
            nn.ConvTranspose1d(width, width, kernel, rate, padding=(kernel - rate) // 2)
            for rate, kernel in zip(upsample_rates, upsample_kernel_sizes)
        )

    def forward(self, x):
        for rate, up in zip(self.rates, self.ups):
            x = up(x) + x.repeat_interleave(rate, dim=-1)
        return x
"""


def test_a_module_whose_parts_are_taken_by_number_has_them(worker, model):
    (target,) = worker.trace(model(PARTS)).targets
    assert "net=torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64))" in target.construct.expression
    assert target.inputs is not None


def test_what_is_laid_out_in_steps_is_as_many_times_as_long(worker, model):
    (target,) = worker.trace(model(TWICE)).targets
    assert "upsample_rates=(2, 2), upsample_kernel_sizes=(4, 4)" in target.construct.expression
    assert (target.inputs is not None, target.problems) == (True, ())


HOLDING = """from torch import nn


class Probe(nn.Module):
    def __init__(self, model, width):
        super().__init__()
        self.model = model
        self.fc = nn.Linear(512, width)

    def forward(self, x):
        return self.fc(self.model.projection(self.model.branch(x)))
"""


def test_the_parts_of_a_module_that_is_made_up_are_registered_in_it(worker, model):
    (target,) = worker.trace(model(HOLDING)).targets
    assert "(torch.nn.ModuleDict,)" in target.construct.expression
    assert (target.inputs is not None, target.problems) == (True, ())


BRANCHES = HOLDING.replace("self.model.branch(x)", 'self.model.branch(x)["embedding"]')


def test_what_is_called_of_something_that_a_model_keeps_can_be(worker, model):
    (target,) = worker.trace(model(BRANCHES)).targets
    assert (target.inputs is not None, target.problems) == (True, ())


STACKED = """import copy
from torch import nn


class PlainAttention(nn.Module):
    def __init__(self, d_model):
        super().__init__()
        self.scale = nn.Linear(d_model, d_model)

    def forward(self, query, key, value):
        return self.scale(query + key + value)


class DownLayer(nn.Module):
    def __init__(self, size, self_attn, src_attn, feed_forward):
        super().__init__()
        self.size, self.self_attn, self.src_attn, self.feed_forward = size, self_attn, src_attn, feed_forward

    def forward(self, x, memory):
        x = self.src_attn(self.self_attn(x, x, x), memory, memory)
        return self.feed_forward(x)


class FeedForward(nn.Module):
    def __init__(self, d_model, d_ff):
        super().__init__()
        self.inner = nn.Linear(d_model, d_ff)
        self.outer = nn.Linear(d_ff, d_model)

    def forward(self, x):
        return self.outer(self.inner(x).relu())


class UpLayer(nn.Module):
    def __init__(self, size, self_attn, feed_forward):
        super().__init__()
        self.size, self.self_attn, self.feed_forward = size, self_attn, feed_forward

    def forward(self, x):
        return self.feed_forward(self.self_attn(x, x, x))


class Upward(nn.Module):
    def __init__(self, layer, count):
        super().__init__()
        self.layers = nn.ModuleList([copy.deepcopy(layer) for _ in range(count)])
        self.norm = nn.LayerNorm(layer.size)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)
"""


def test_a_part_is_what_the_file_calls_as_its_owner(worker, model):
    target = of(worker.trace(model(STACKED)), "Upward")
    attention, feeding = "PlainAttention(d_model=64)", "FeedForward(d_model=64, d_ff=64)"
    layer = f"UpLayer(size=64, self_attn={attention}, feed_forward={feeding})"
    assert target.construct.expression == f"Upward(layer={layer}, count=2)"
    assert (target.status, target.problems) == ("complete", ())


BOTTLENECK = """
from torch import nn

class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, in_planes, planes, spatial_dims, stride=1, downsample=None):
        super().__init__()
        conv = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}[spatial_dims]
        self.conv1 = conv(in_planes, planes, 1)
        self.conv2 = conv(planes, planes, 3, stride, 1)
        self.conv3 = conv(planes, planes * self.expansion, 1)
        self.downsample = downsample

    def forward(self, x):
        out = self.conv3(self.conv2(self.conv1(x).relu()).relu())
        return out + (x if self.downsample is None else self.downsample(x))
"""


def test_how_many_sides_a_picture_has_is_no_number_of_channels(worker, model):
    (target,) = worker.trace(model(BOTTLENECK)).targets
    assert "in_planes=256, planes=64" in target.construct.expression
    assert target.inputs is not None


MASKED = """
import torch
from torch import nn
from torch.nn import functional as F

class Masked(nn.Module):
    def __init__(self, generator, mask_token_id, num_tokens):
        super().__init__()
        self.generator = generator
        self.mask_token_id = mask_token_id
        self.table = nn.Embedding(num_tokens, 8)

    def forward(self, tokens):
        known, _ = self.table(tokens).max(-1)
        assert known.dim() == 2
        masked = tokens.clone()
        masked[:, ::2] = self.mask_token_id
        logits = self.generator(masked)
        loss = F.cross_entropy(
            logits.transpose(1, 2),
            tokens % 2,
        )
        return loss + known.mean()
"""


def test_what_has_no_place_for_classes_where_they_are_compared_gives_a_score_of_each(worker, model):
    (target,) = worker.trace(model(MASKED)).targets
    assert SCORES in target.construct.expression
    assert target.inputs is not None
