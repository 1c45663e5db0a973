"""Example inputs that the source tells of: comments, docstrings, annotations, conditions, and the code that raised."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from fxengine.inputs import infer_inputs
from fxengine.inputs.reading import patterns_said
from tests.support.feeding import fed


class Commented(nn.Module):
    def forward(
        self,
        x,  # (B, C, H, W)
        points,  # [batch, num_points, 3]
    ):
        # mask: (B, N)
        return x, points


class Documented(nn.Module):
    def forward(self, hidden_states, text_embeds=None, mask=None):
        """Mix.

        Args:
            hidden_states (`torch.Tensor` of shape `(batch_size, text_sequence_length, hidden_dim)`):
                The states.
            text_embeds:
                Of no shape.
            mask: a tensor of shape (N, L).
        """
        return hidden_states, text_embeds, mask


class InBold(nn.Module):
    def forward(self, X, A):
        """Step.

        Arg types:
            * **X** (PyTorch Float Tensor) - Features of the nodes, with shape (B, N_nodes, F_in, T_in).
            * **A** (PyTorch Float Tensor) - Sequence of shape (Batch size X Time steps X Num nodes).

        Return types:
            * **A** (PyTorch Float Tensor) - Scores, with shape (B, T_in, T_in).
        """
        return X, A


class WithEntries(nn.Module):
    """Fold.

    Shape:
        - Input: :math:`(N, C, L)`
        - Output: :math:`(N, L)`
    """

    def forward(self, x, bias=None):
        return x, bias


class WithDataTypes(nn.Module):
    def forward(self, points, directions):
        """Look.

        Args:
            points (Tensor[batch_size, samples, 3, float32]):
                where
            directions (Tensor[batch_size, 3, float32]): whereto
        """
        return points, directions


class InFormulas(nn.Module):
    def forward(self, nodes, weights, x):
        r"""Look.

        Parameters
        ----------
        nodes
            Data of nodes (:math:`n_{nodes} \times n_{features}`)
        weights
            What edges weigh (:math:`n_{edges}`)
        x : Tensor
            of shape :math:`(N, C_{in}, |\mathcal{L}|)`
        """
        return nodes, weights, x


class InColumns(nn.Module):
    def forward(self, risks, y):
        times, events = y.T
        return risks, times, events


class Unpacking(nn.Module):
    def forward(self, x, y):
        b, c, t, f = x.shape
        y = y.reshape(b, c, -1)
        height, width = y.shape
        return x, y, t, f, height, width


class Annotated(nn.Module):
    def forward(
        self,
        tgt,  # nq, bs, d_model
        memory=None,  # hw, bs, d_model
        mask=None,  # optional, unused
    ):
        return tgt, memory, mask


@pytest.mark.parametrize(
    ("module", "names", "said"),
    [
        (Annotated(), ["tgt", "memory", "mask"], {"tgt": ["nq bs d_model"], "memory": ["hw bs d_model"]}),
        (Commented(), ["x", "points", "mask"], {"x": ["B C H W"], "points": ["batch num_points 3"], "mask": ["B N"]}),
        (
            Documented(),
            ["hidden_states", "text_embeds", "mask"],
            {"hidden_states": ["batch_size text_sequence_length hidden_dim"], "mask": ["N L"]},
        ),
        (InBold(), ["X", "A"], {"X": ["B N_nodes F_in T_in"], "A": ["Batch_size Time_steps Num_nodes"]}),
        (WithEntries(), ["x", "bias"], {"x": ["N C L"]}),
        (
            WithDataTypes(),
            ["points", "directions"],
            {"points": ["batch_size samples 3"], "directions": ["batch_size 3"]},
        ),
        (
            InFormulas(),
            ["nodes", "weights", "x"],
            {"nodes": ["n_nodes n_features"], "weights": ["n_edges"], "x": ["N C_in L"]},
        ),
        (InColumns(), ["risks", "y"], {"y": ["b 2"]}),
        (Unpacking(), ["x", "y"], {"x": ["b c t f"]}),
    ],
    ids=["axes alone", "comments", "docstring", "bold", "entries", "data types", "formulas", "columns", "code"],
)
def test_the_source_says_shapes(module, names, said):
    assert patterns_said(module, names) == said


def test_the_batch_stands_where_the_source_has_it():
    assert infer_inputs(Annotated()).args[0].shape[:2] == (16, 2)


class Conditions(nn.Module):
    """What is asserted tells the sizes."""

    def __init__(self):
        super().__init__()
        self.patch, self.width = 7, 21

    def forward(self, x, mode: str):
        assert x.ndim == 4
        batch, channels, height, width = x.shape
        assert height % self.patch == 0
        assert width % self.patch == 0
        if channels != self.width:
            raise ValueError("wrong width")
        assert mode in ("mean", "max")
        return x.view(batch, channels, height // 7, 7, width // 7, 7).amax((3, 5)) if mode == "max" else x


def test_conditions_that_did_not_hold_tell_what_was_wanted():
    inferred = fed(Conditions())
    _, channels, height, width = inferred.args[0].shape
    assert (channels, height % 7, width % 7) == (21, 0, 0)
    assert inferred.args[1] == "mean"


class Batch(nn.Module):
    """A dictionary whose keys only the code knows."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(11, 6)
        self.head = nn.Linear(6, 2)

    def forward(self, batch):
        hidden = self.embed(batch["input_ids"]) * batch["attention_mask"][..., None]
        return self.head(hidden) if batch.get("labels") is None else hidden


def test_keys_of_a_dictionary():
    inferred = fed(Batch())
    assert inferred.expression.startswith("{'input_ids': torch.randint(0, 11, ")


class Graph(nn.Module):
    def __init__(self):
        super().__init__()
        self.node, self.edge = nn.Linear(5, 4), nn.Linear(3, 4)

    def forward(self, data):
        x = self.node(data.x)
        return x.index_add(0, data.edge_index[1], self.edge(data.edge_attr) + x[data.edge_index[0]])


def test_attributes_of_an_object():
    inferred = infer_inputs(Graph(), budget_s=60.0)
    assert inferred.complete, inferred.failures
    assert set(dict(inferred.recipes["data"].items)) == {"x", "edge_index", "edge_attr"}


class Padded(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 4)

    def forward(self, nested):
        return self.fc(nested.tensors) if nested.is_whole and not self.training else nested.mask


def test_an_attribute_that_is_asked_whether_it_is_true_is_a_flag():
    assert "is_whole=False" in infer_inputs(Padded()).expression


class Pyramid(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(channels, 4, 1) for channels in (8, 16, 32))

    def forward(self, features: list[Tensor]):
        return [conv(features[index]) for index, conv in enumerate(self.convs)]


def test_the_items_of_a_list_are_told_apart():
    assert [tuple(each.shape)[1] for each in fed(Pyramid()).args[0]] == [8, 16, 32]


class Called(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(6, 6)

    def forward(self, x, activation, rotate: Callable[[Tensor], Tensor]):
        return rotate(activation(self.fc(x)))


def test_what_is_called_is_a_module():
    assert fed(Called()).expression.endswith("torch.nn.Identity(), torch.nn.Identity()")


class Numbers(nn.Module):
    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(8, 8)

    def forward(self, x, h, w, sizes: tuple[int, int]):
        return self.proj(x), x.repeat(h, w), torch.zeros(sizes)


def test_numbers_where_torch_wants_numbers():
    inferred = fed(Numbers())
    assert [type(each) for each in inferred.args[1:]] == [int, int, tuple]


class Tables(nn.Module):
    """The second table is smaller than the first: only values tell."""

    def __init__(self):
        super().__init__()
        self.words, self.kinds = nn.Embedding(100, 4), nn.Embedding(3, 4)

    def forward(self, tokens, kind):
        return self.words(tokens) + self.kinds(kind + 0)


def test_integers_stay_below_the_table_that_they_index():
    inferred = fed(Tables())
    assert inferred.recipes["kind"].high <= 3


class Picky(nn.Module):
    """Goes on only where a value is small, and then wants a width."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(12, 3)

    def forward(self, x, step):
        if step.item() > 100:
            raise ValueError("too late")
        return self.fc(x)


def test_a_model_that_reads_values_is_run_on_real_ones():
    fed(Picky())


class Any(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return self.fc(x)


class Fixed(Any):
    def forward(self, x):
        assert len(x) == 2, "two views"
        return self.fc(x)


@pytest.mark.parametrize(("module", "bound"), [(Any(), False), (Fixed(), True)])
def test_a_batch_of_another_size_is_tried(module, bound):
    inferred = fed(module)
    assert inferred.bound_to_batch is bound
    assert inferred.reason.endswith("only in a batch of 2") is bound


def test_the_parameter_in_doubt_is_named():
    class Decoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = nn.Linear(4, 4)

        def forward(self, x, message):
            return self.fc(x) * message.payload.unseal(self.fc).block(2)

    inferred = infer_inputs(Decoder(), budget_s=0.3)
    assert not inferred.complete
    assert inferred.doubtful == ("message",)


def test_one_complaint_about_everything_ends_the_search():
    class Abstract(nn.Module):
        def forward(self, x, y, z):
            raise NotImplementedError

    inferred = infer_inputs(Abstract(), budget_s=60.0)
    assert not inferred.complete


class OverSteps(nn.Module):
    """Graphs at several steps: more than a row for each node."""

    def __init__(self):
        super().__init__()
        self.weight, self.mix = nn.Parameter(torch.ones(16)), nn.Linear(5, 4)

    def forward(self, X, edge_index):
        """Step.

        Args:
            X: Features of the nodes, of shape (B, num_nodes, F_in, T_in).
            edge_index: Which nodes are joined.
        """
        weighed = torch.matmul(X.permute(0, 3, 2, 1), self.weight)
        return self.mix(X.permute(0, 3, 1, 2)[:, :, edge_index[0]]), weighed


def test_what_is_said_of_graphs_at_several_steps():
    inferred = fed(OverSteps())
    assert inferred.args[0].shape[:3] == (2, 16, 5)
    assert not inferred.failures


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        batch, nodes, steps, features = x.shape
        return self.fc(x.reshape(batch * nodes * steps, features))


class Outer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Inner()

    def forward(self, x):
        return self.inner(x).sum(-1)


def test_axes_are_called_what_they_are_in_a_part_of_the_model():
    inferred = fed(Outer())
    assert inferred.args[0].shape == (2, 16, 16, 4)
    assert len(inferred.failures) == 1


class Filled(nn.Module):
    def forward(self, x, mask):
        return x * mask + (1 - mask) * x.mean()


def test_a_mask_that_is_counted_with_is_no_flag():
    inferred = fed(Filled())
    assert inferred.recipes["mask"].dtype is torch.float32
    assert not any("bool" in each.error for each in inferred.failures)


class FilledInside(nn.Module):
    def forward(self, x, mask):
        return torch.rsub(mask, 1) * x


def test_a_mask_that_nothing_is_taken_from_is_no_flag():
    mask = fed(FilledInside()).recipes["mask"]
    assert (mask.fill, mask.dtype) == ("ones", torch.float32)


class Unannotated(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x, oracle):
        return self.fc(x) if oracle is None else oracle.unseal(self.fc(x)).block(2)


def test_what_code_asks_whether_it_is_none_may_be_none():
    assert fed(Unannotated(), budget_s=5.0).args[1] is None


class OfGraph(nn.Module):
    """Attend.

    Inputs:
        x: [B, N, C]
        graph: [N, N]
    """

    def __init__(self):
        super().__init__()
        self.proj = nn.Linear(5, 8)

    def forward(self, x, graph):
        h = self.proj(x)
        scores = (h @ h.transpose(1, 2)).masked_fill(graph.bool().unsqueeze(0), 0)
        return torch.bmm(scores, h)


def test_an_axis_that_is_named_twice_is_as_long_both_times():
    x, graph = infer_inputs(OfGraph()).args
    assert x.shape[1] > 2
    assert graph.shape == (x.shape[1], x.shape[1])
