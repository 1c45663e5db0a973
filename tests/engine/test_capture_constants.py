"""What a capture takes for known: constants, parameters, what they decide, and numbers that are drawn."""

import copy
import sys
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.nn.utils import parametrizations

import fxengine
from tests.support.capturing import captured, captured_for_many_runs, targets

X = torch.randn(2, 4)


class _Masked(nn.Module):
    """A layer of torch's looks at its mask, which is a constant."""

    def __init__(self):
        super().__init__()
        self.decoder = nn.TransformerDecoder(nn.TransformerDecoderLayer(8, 2, 16, 0.0, batch_first=True), 1)

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return self.decoder(x, x * 2, tgt_mask=mask)


def test_leaves_that_look_at_constants_are_shown_them():
    found = captured(_Masked(), torch.randn(2, 5, 8))

    assert "decoder" in targets(found)


def test_leaves_that_are_given_other_parameters_are_looked_into():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 4)
            self.bare = nn.Linear(4, 4, bias=False)
            del self.bare.weight

        def forward(self, x):
            self.bare.weight = x.t() @ x
            weights = {"weight": x.t() @ x}
            return torch.func.functional_call(self.inner, weights, (x,)) + self.inner(self.bare(x))

    found = captured(Model(), X)

    assert targets(found).count("inner") == 1
    assert "bare" not in targets(found)


def test_parameters_of_distributions_are_not_checked():
    def f(x):
        normal = torch.distributions.Normal(x, x.exp())
        other = torch.distributions.Normal(torch.zeros_like(x), torch.ones_like(x))
        return normal.rsample(), torch.distributions.kl_divergence(normal, other)

    before = torch.distributions.Distribution._validate_args
    captured(f, X)
    assert torch.distributions.Distribution._validate_args is before


def test_numbers_that_are_drawn_for_new_parameters_are_drawn_in_each_run():
    captured(lambda x: nn.Linear(4, 3)(x) + nn.init.normal_(torch.empty(3)), X)


def test_numbers_are_drawn_in_each_run_also_where_only_constants_decide_on_them():
    captured(lambda x: x * F.dropout(torch.ones(4), 0.5) + torch.distributions.Dirichlet(torch.ones(4)).sample(), X)
    still = captured(lambda x: x * F.dropout(torch.ones(4), 0.5, training=False), X)

    assert "dropout" not in targets(still)


def test_numbers_that_were_drawn_before_data_are_wanted_are_not_drawn_twice():
    def f(x):
        noisy = x + torch.randn_like(x)
        return noisy * 2 if torch.rand(1) < 2 else x

    found = fxengine.capture(f, X)
    torch.manual_seed(0)
    wanted = f(X)
    torch.manual_seed(0)

    assert found.rest is not None
    assert torch.equal(found.graph_module(X), wanted)


class _Learned(nn.Module):
    """A threshold and a number of steps that were learned decide what is done."""

    def __init__(self):
        super().__init__()
        self.threshold = nn.Parameter(torch.tensor([0.3, 0.9]))

    def forward(self, x):
        if self.threshold.exp().sum() > 2 and (self.threshold > 0.5)[1]:
            x = x * self.threshold.max().item()
        for _ in range(int((self.threshold * 4).round().long()[1])):
            x = torch.relu(x) + 1
        return x


def test_what_follows_from_parameters_alone_is_known():
    found = captured(_Learned(), X)

    assert targets(found).count("relu") == 4


def test_what_is_drawn_or_changed_is_not_known_though_it_follows_from_no_input():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(1))
            self.register_buffer("steps", torch.zeros(1))

        def forward(self, x, kind):
            asked = torch.rand(1) * self.scale if kind == "drawn" else self.steps.add_(self.scale)
            return x * 2 if asked > 0.5 else x

    for kind in ("drawn", "changed"):
        with torch.no_grad():
            found = fxengine.capture(Model(), (X, kind))
        assert len(found.problems) == 1
        assert found.rest is not None


def test_the_data_of_a_buffer_are_the_buffer():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("average", torch.zeros(4))

        def forward(self, x):
            self.average.data.mul_(0.5).add_(x.mean(0))
            self.average.detach().clamp_(max=1.0)
            return self.average * x

    captured(Model(), X)


@pytest.mark.parametrize(
    "derive",
    [
        torch.func.grad(lambda y: (y**2).sum()),
        lambda x: torch.func.jacrev(torch.sin)(x * 2),
        lambda x: torch.func.jvp(torch.sin, (x,), (x,))[1],
    ],
    ids=["grad", "jacrev", "jvp"],
)
def test_derived_functions_are_the_rest_of_the_run(derive):
    found = fxengine.capture(derive, X)

    assert "torch.func" in found.problems[0].message
    torch.testing.assert_close(found.graph_module(X), derive(X))


def test_modules_that_the_code_makes_are_no_part_of_what_the_rest_is_answered_for():
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(4, 4)

        def forward(self, x):
            smooth = nn.AvgPool1d(2)(self.first(x))
            return smooth[smooth > 0] if smooth.sum() > -100 else smooth

    net = Model()
    found = fxengine.capture(net, X)

    assert found.rest is not None
    assert torch.equal(found.graph_module(X), net(X))


def test_what_is_scripted_is_not_compiled_for_tensors_without_data(capsys):
    def f(x):
        sys.stdout.write(str(torch._C._get_graph_executor_optimize()))
        return x + 1

    captured(f, X)

    assert capsys.readouterr().out.startswith("False")
    assert torch._C._get_graph_executor_optimize()


def test_what_is_filled_after_a_shape_is_known():
    def f(x, index=None):
        index = x.new_zeros(x.shape[0], dtype=torch.long) if index is None else index
        return x.new_zeros(int(index.max()) + 1, x.shape[1]).index_add(0, index, x)

    found = captured(f, X)

    assert {guard.kind for guard in found.guards} == {"shape"}


@pytest.mark.parametrize("change", ["item", "view"])
def test_what_was_filled_and_changed_is_not_known(change):
    def f(x):
        filled = torch.ones_like(x)
        if change == "item":
            filled[0] = x[0]
        else:
            filled.view(-1)[:2].add_(1)
        return x * 2 if filled.sum() > x.numel() else x

    found = fxengine.capture(f, X)

    assert found.rest is not None
    assert torch.equal(found.graph_module(X), f(X))


class _Prepared(nn.Module):
    """Makes an argument in a `__call__` of its own, as aggregations of graphs do."""

    def __call__(self, x, index=None):
        return super().__call__(x, index=x.new_ones(4) if index is None else index)

    def forward(self, x, index=None):
        if index is None:
            raise ValueError("index is required")
        return x * index


def test_a_class_may_prepare_the_arguments_of_its_forward():
    found = captured(_Prepared(), X)

    assert "mul" in targets(found)


class _Marking(nn.Module):
    """Calls a module that it makes, and then changes a tensor for which it is asked whether it is a buffer."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(4))

    def forward(self, x):
        smooth = nn.AvgPool1d(2, stride=1)(x * self.scale)
        marks = torch.zeros(2, 3)
        marks[:, 1:] = smooth[:, 1:]
        return marks + smooth


def test_tensors_are_changed_beside_modules_that_the_code_makes():
    found = captured(_Marking(), torch.randn(2, 4))

    assert "setitem" in targets(found)


class _Remembering(nn.Module):
    """Assigns to what it reads: a buffer, and a tensor that is none."""

    def __init__(self):
        super().__init__()
        self.register_buffer("average", torch.ones(4))
        self.last = torch.ones(4)

    def forward(self, x):
        y = (x - self.average) * self.last
        self.average = self.average * 0.9 + x.mean(0) * 0.1
        self.last = x.mean(0)
        return y + self.average * self.last


def test_what_is_assigned_to_while_it_runs_is_read_as_it_was_before():
    net = _Remembering()

    found = fxengine.capture(net, X)

    assert found.problems == ()
    assert torch.equal(net.average, torch.ones(4))
    assert torch.equal(net.last, torch.ones(4))
    torch.testing.assert_close(found.graph_module(X), net(X))


class _Averaging(nn.Module):
    """Assigns to its buffers, some of which decide what it does."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Module()
        self.inner.register_buffer("average", torch.ones(4))
        self.register_buffer("steps", torch.zeros(()))
        self.register_buffer("begun", torch.tensor(True))

    def forward(self, x):
        if self.begun:
            self.inner.average = self.inner.average * 0.9 + x.mean(0) * 0.1
            self.steps = self.steps + 1
        return x * self.inner.average + self.steps


def test_buffers_that_are_assigned_to_change_with_each_run():
    net = _Averaging()

    found = fxengine.capture(net, X)

    assert targets(found).count("copy_") == 2
    for _ in range(3):
        x = torch.randn(2, 4)
        torch.testing.assert_close(found.graph_module(x), net(x))
    assert found.graph_module.inner.average is not net.inner.average
    torch.testing.assert_close(found.graph_module.inner.average, net.inner.average)


class _Codebook(nn.Module):
    """Changes a buffer in place, by a value that it has computed of it."""

    def __init__(self):
        super().__init__()
        self.register_buffer("codes", torch.randn(6, 4))
        self.register_buffer("place", torch.tensor(0))

    def forward(self, x):
        nearest = torch.cdist(x, self.codes).argmin(-1)
        moved = self.codes * 0.9
        self.codes.data.copy_(moved.index_add(0, nearest, x, alpha=0.1))
        scaled = x * (self.place + 1)
        self.place.fill_((self.place + 1) % 5)
        return F.embedding(nearest, self.codes) + scaled


def test_what_is_computed_of_a_buffer_that_is_changed_later_is_computed_in_each_run():
    net = _Codebook()
    twin = captured_for_many_runs(net, X)

    torch.testing.assert_close(net.codes, twin.codes)


class _Statistics(nn.Module):
    """Reads what norms keep of the batches that they have seen, before and after they see another one."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("var", torch.ones(4))

    def forward(self, x):
        before = self.norm.running_mean * 2
        y = F.batch_norm(self.norm(x), self.mean, self.var, training=self.training)
        return y + before + self.norm.running_mean * 3 + self.mean.exp() + self.norm.num_batches_tracked


@pytest.mark.parametrize("training", [False, True])
def test_what_norms_keep_of_batches_is_read_in_each_run(training):
    net = _Statistics().train(training)

    captured_for_many_runs(net, X)


class _Watched(nn.Module):
    """Has the output of a layer by way of a hook."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.seen = {}
        self.layer.register_forward_pre_hook(lambda _module, args: (args[0] + 1,))
        self.layer.register_forward_hook(self.keep)

    def keep(self, _module, _args, output):
        self.seen["layer"] = output
        return output * 2

    def forward(self, x):
        return self.layer(x) - self.seen["layer"].softmax(-1)


def test_what_hooks_do_with_a_layer_is_captured():
    captured(_Watched(), X)


def test_layers_with_hooks_of_torchs_own_are_leaves():
    found = captured(nn.Sequential(nn.utils.weight_norm(nn.Linear(4, 3)), nn.ReLU()), X)

    assert targets(found) == ["input", "0", "1", "output"]


class _OwnLinear(nn.Linear):
    """A layer of the user's own, which a capture goes through."""

    def forward(self, x):
        return F.linear(x, self.weight, self.bias)


@pytest.mark.parametrize("has_run", [False, True])
@pytest.mark.parametrize("gradients", [False, True])
def test_weights_that_layers_and_leaves_make_anew_in_each_run_are_the_same_in_each(has_run, gradients):
    layer = nn.Linear(4, 4)
    layer.weight.data.fill_(0.3)  # Its direction times its length is another number, by the last bit.
    net = nn.Sequential(nn.utils.weight_norm(_OwnLinear(4, 4)), nn.utils.weight_norm(layer)).eval()
    with torch.set_grad_enabled(gradients):
        if has_run:
            net(X)
        captured(net, X)


@pytest.mark.parametrize("register", ["register_backward_hook", "register_full_backward_hook"])
def test_hooks_of_the_backward_pass_change_nothing_and_are_kept(register):
    net = nn.Sequential(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), _OwnLinear(4, 2))
    calls = []
    for module in net:
        getattr(module, register)(lambda *_: calls.append(1))
    net[1].register_full_backward_pre_hook(lambda *_: None) if "full" in register else None

    captured(net, X)
    assert [node.op for node in fxengine.symbolic_trace(net).graph.nodes][1:3] == ["call_module", "call_module"]
    net(X).sum().backward()
    assert len(calls) == 2


def test_what_a_leaf_does_with_its_buffers_is_not_done_again():
    net = nn.Sequential(parametrizations.spectral_norm(nn.Linear(4, 3)))

    assert targets(fxengine.capture(net, X)) == ["input", "0", "output"]


class _Rounded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        return (x * scale).round() / scale

    @staticmethod
    def backward(ctx, grad):
        return grad * 3, None


class _Quantized(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(4))

    def forward(self, x):
        return _Rounded.apply(x * self.weight, 8.0)


def test_gradients_of_ones_own_are_those_of_the_graph():
    net = _Quantized()
    found = captured(net, X)

    gradients = [torch.autograd.grad(run(X).sum(), net.weight) for run in (net, found.graph_module)]
    assert torch.equal(*(each for (each,) in gradients))
    with torch.no_grad():
        assert "round" in targets(captured(net, X))


class _Learning(nn.Module):
    """Takes steps of its own, by gradients, and decides by data in the end."""

    def __init__(self, by_backward):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.by_backward = by_backward

    def forward(self, x):
        guess = torch.zeros_like(x, requires_grad=True)
        loss = (self.layer(guess) - x).square().sum()
        if self.by_backward:
            loss.backward(inputs=[guess])
            return guess - 0.1 * guess.grad
        (gradient,) = torch.autograd.grad(loss, guess)
        return guess - gradient if gradient.sum() > 0 else guess


@pytest.mark.parametrize("by_backward", [False, True])
def test_what_is_derived_in_the_rest_is_computed_there(by_backward):
    net = _Learning(by_backward)

    found = fxengine.capture(net, X)

    assert [found.problems[0].site.text, len(found.problems)] == [
        "loss.backward(inputs=[guess])" if by_backward else "gradient.sum() > 0",
        1,
    ]
    assert isinstance(found.problems[0].exception, fxengine.capturing.DataDependent)
    for x in (X, -X):
        torch.testing.assert_close(found.graph_module(x), net(x))


class _Taken(nn.Module):
    """Has parts with names that a graph module has for itself."""

    def __init__(self):
        super().__init__()
        self.register_buffer("code", torch.randn(3, 4))
        self.graph = nn.Sequential(nn.Linear(4, 3), nn.Sequential(nn.ReLU()))
        self.recompile = nn.Parameter(torch.ones(3))

    def forward(self, x):
        self.code.mul_(0.5)
        y = self.graph(x) * self.recompile
        return y @ self.code + self.graph[0].weight


def test_parts_may_have_names_that_a_graph_module_has_for_itself():
    net = _Taken()

    captured(net, torch.randn(3, 4))

    assert set(net._modules) == {"graph"}
    assert set(net._parameters) == {"recompile"}
    assert set(net._buffers) == {"code"}


def test_the_buffers_of_norms_that_are_changed_by_hooks_are_put_back():
    net = nn.Sequential(nn.utils.spectral_norm(nn.Linear(4, 3)))
    before = copy.deepcopy(net.state_dict())

    found = fxengine.capture(net, X)

    assert found.problems == ()
    assert all(torch.equal(value, before[name]) for name, value in net.state_dict().items())


def test_sizes_and_ends_of_slices_may_be_numbers_that_follow_from_shapes():
    def align(x, y):
        lengths = x.shape[1] * x.new_ones(x.shape[0], dtype=torch.long) - 1
        aligned = y.new_zeros(y.shape)
        for index, (row, length) in enumerate(zip(x, lengths, strict=True)):
            part = row[:length]
            aligned[index, : length - 1] = F.interpolate(part[None, None], size=length - 1, mode="nearest")[0, 0]
        return aligned

    found = captured(align, torch.randn(2, 6), torch.randn(2, 9))

    assert "x.shape" in {guard.expression for guard in found.guards}


def test_what_was_changed_through_a_view_does_not_follow_from_shapes():
    def change(x):
        lengths = x.new_ones(2, dtype=torch.long)
        lengths.view(-1)[0] = x.argmax()
        return x[: lengths[0]]

    found = fxengine.capture(change, X.flatten(), may_load=False)

    assert [type(problem.exception).__name__ for problem in found.problems] == ["DataDependent"]


def test_what_is_counted_from_the_shape_alone_is_known():
    def padded(x, batch=None):
        batch = x.new_zeros(x.shape[0], dtype=torch.int64) if batch is None else batch
        counts = x.new_zeros(1, dtype=torch.int64).index_add_(0, batch, batch.new_ones(x.shape[0]))
        starts = counts.new_empty(2)
        starts.narrow(0, 0, 1).zero_()
        torch.cumsum(counts, 0, out=starts.narrow(0, 1, 1))
        return torch.cat([x, x.new_zeros(6 - int(counts.max()), 3)])

    found = fxengine.capture(padded, (torch.randn(4, 3),))

    assert found.problems == ()
    x = torch.randn(4, 3)
    torch.testing.assert_close(found.graph_module(x), padded(x))


def test_what_is_counted_by_way_of_a_view_is_not_taken_for_known():
    def of_view(x):
        counts = x.new_zeros(4)
        counts.view(2, 2).add_(3)
        return x * int(counts.max())

    found = fxengine.capture(of_view, (torch.randn(4, 3),))

    x = torch.randn(4, 3)
    torch.testing.assert_close(found.graph_module(x), of_view(x))


class _Asking(nn.Module):
    """Asks whether gradients flow through what it has computed."""

    def __init__(self, asked):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.asked = asked

    def forward(self, x):
        y = self.layer(x)
        with torch.no_grad():
            frozen = self.layer(x)
        rows = torch.zeros(2, 4)
        rows[0] = y[0]
        found = [x, y, frozen, y.detach(), y.argmax(1), y.detach().requires_grad_(), rows, y[0], torch.zeros_like(y)]
        return y + sum(2**n for n, each in enumerate(found) if self.asked(each))


@pytest.mark.parametrize("asked", [lambda x: x.requires_grad, lambda x: x.is_leaf])
@pytest.mark.parametrize("enabled", [True, False])
def test_whether_gradients_flow_is_known(asked, enabled):
    with torch.set_grad_enabled(enabled):
        captured(_Asking(asked), X)


def test_what_has_computed_a_tensor_is_not_known():
    net = nn.Linear(4, 4)

    def f(x):
        y = net(x)
        return y * 2 if y.grad_fn is not None else y

    found = fxengine.capture(f, X)

    assert "`grad_fn`" in found.problems[0].message
    torch.testing.assert_close(found.graph_module(X), f(X))


def test_generators_are_seeded_in_each_run():
    def f(x):
        with torch.random.fork_rng():
            torch.manual_seed(3)
            x = x + torch.rand(4)
        return x + torch.rand(4)

    captured(f, X)


def test_what_vmap_draws_is_drawn_once():
    captured(torch.vmap(lambda v: v + torch.rand(4), randomness="different"), X)


def test_tensors_that_are_nested_are_left_to_the_models_own_code():
    def f(x):
        return torch.nested.nested_tensor([x[0], x[1, :2]]).to_padded_tensor(0.0)

    found = fxengine.capture(f, X)

    assert found.rest is not None
    torch.testing.assert_close(found.graph_module(X), f(X))


@pytest.mark.parametrize(
    "read",
    [
        lambda made: float(made.sum()),
        lambda made: torch.tensor(made.numpy()).sum(),
        lambda made: torch.tensor(made.detach().cpu().tolist()).sum(),
        lambda made: made[0].view(-1).mean().item(),
    ],
)
def test_what_is_made_in_a_run_and_written_to_is_not_known(read):
    """Its data were zeros when it was made, and follow from the input when they are read."""

    class Model(nn.Module):
        def forward(self, x):
            made = torch.zeros(2, 4)
            made[0:1] = x[0:1]
            return x * read(made)

    model, x = Model(), torch.randn(2, 4)
    with torch.no_grad():
        found = fxengine.capture(model, torch.randn(2, 4))
        assert found.graph_module is not None
        torch.testing.assert_close(found.graph_module(x), model(x))


def test_what_is_as_large_as_another_is_made_of_its_sizes():
    def reversed_rows(x):
        made = x.new(x.size()).zero_()
        for row in range(x.shape[0]):
            made[row, :3] = x[row, :3].flip(dims=[0])
        return made + x.new(2, 4).fill_(1)

    assert captured(reversed_rows, X).problems == ()


@pytest.mark.parametrize("same", [torch.equal, torch.Tensor.equal])
def test_tensors_of_different_shapes_are_not_equal_whatever_they_hold(same):
    def attend(query, key):
        return query @ query.T if query is key or same(query, key) else query @ key.T

    found = fxengine.capture(attend, (torch.randn(3, 4), torch.randn(5, 4)))
    assert found.problems == ()
    query, key = torch.randn(3, 4), torch.randn(5, 4)
    torch.testing.assert_close(found.graph_module(query, key), attend(query, key))
    assert found.check_guards((torch.randn(3, 4), torch.randn(3, 4))) != []
    alike = fxengine.capture(attend, (torch.randn(3, 4), torch.randn(3, 4)))
    assert [each.exception for each in alike.problems if isinstance(each.exception, fxengine.capturing.DataDependent)]


class _Acting(nn.Module):
    """Keeps the distribution that it draws an action of, and the action."""

    def __init__(self):
        super().__init__()
        self.mean = nn.Linear(4, 2)
        self.kept = SimpleNamespace()

    def forward(self, x):
        mean = self.mean(x)
        self.kept.distribution = torch.distributions.Normal(mean, torch.ones_like(mean))
        self.kept.actions = self.kept.distribution.rsample()
        return torch.tanh(self.kept.actions) + torch.empty(2).uniform_()


class _Drawing(nn.Module):
    """Takes the same numbers twice in its first run, and others in later ones."""

    def __init__(self):
        super().__init__()
        self.has_run = False

    def forward(self, x):
        first, second = torch.empty(4).normal_(), torch.empty(4).normal_()
        x = x + first + (second if self.has_run else first)
        self.has_run = True
        return x


def test_what_is_drawn_into_an_empty_tensor_is_the_same_in_each_run_whatever_was_in_it():
    for _ in range(3):
        captured(_Acting(), X)
    problems = fxengine.capture(_Drawing(), X).problems
    assert [type(each.exception).__name__ for each in problems] == ["StateDependent"]
