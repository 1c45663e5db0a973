"""Tables of whole numbers that say how large other inputs are: a capture holds for the numbers in them."""

import pytest
import torch

import fxengine
from fxengine.capturing.values import Values
from tests.support.capturing import targets

X = torch.randn(12, 4)
SIZES = torch.tensor([[2, 3], [3, 2]])


def pictures(x, sizes):
    parts, start = [], 0
    for height, width in sizes.tolist():
        part = x[start : start + height * width].reshape(height, width, -1)
        parts.append(part.mean((0, 1)) if height % 2 else part.amax((0, 1)))
        start += height * width
    return torch.stack(parts), sizes * 2 + x.sum()


def test_what_the_numbers_in_a_table_decide_is_captured_for_them():
    found = fxengine.capture(pictures, (X, SIZES))

    assert found.problems == ()
    found.graph.lint()
    assert [(each.expression, each.value) for each in found.guards] == [("sizes.tolist()", [[2, 3], [3, 2]])]
    fresh = torch.randn(12, 4)
    torch.testing.assert_close(found.graph_module(fresh, SIZES), pictures(fresh, SIZES))
    assert found.check_guards((fresh, SIZES.clone())) == []


def test_other_numbers_violate_the_guard_and_fail_in_the_graph():
    found = fxengine.capture(pictures, (X, SIZES))

    ((_, reason),) = found.check_guards((X, SIZES.flip(0)))
    assert reason == "sizes.tolist() is [[3, 2], [2, 3]]; the graph was made for [[2, 3], [3, 2]]"
    with pytest.raises(AssertionError, match=r"the graph holds for sizes == \[\[2, 3\], \[3, 2\]\]"):
        found.graph_module(X, SIZES.flip(0))


def test_a_table_that_is_changed_is_the_callers_no_more():
    def change(x, sizes):
        rows = [x[:n].sum() for n in sizes.tolist() if n > 1]
        sizes += 1
        sizes[0] = x.argmax()
        return torch.stack(rows), sizes

    sizes = torch.tensor([1, 2, 3])
    found = fxengine.capture(change, (X, sizes))

    assert found.problems == ()
    assert sizes.tolist() == [1, 2, 3]
    torch.testing.assert_close(found.graph_module(X, sizes.clone()), change(X, sizes.clone()))


def test_what_stood_for_a_table_before_it_was_changed_is_forgotten(monkeypatch):
    """Another tensor may take the identity of what was let go of, and would be taken for the table."""

    def change(x, sizes):
        rows = [x[:n].sum() for n in sizes.tolist() if n > 1]
        sizes += 1
        sizes[0] = x.argmax()
        return torch.stack(rows), sizes

    made, prepare = [], Values.__init__

    def noted(self, *args):
        made.append(self)
        prepare(self, *args)

    monkeypatch.setattr(Values, "__init__", noted)
    fxengine.capture(change, (X, torch.tensor([1, 2, 3])))
    assert made
    for values in made:
        assert values._originals.keys() <= {id(held.value) for held in values.held.values()}


def test_a_table_whose_numbers_decide_nothing_is_an_input_as_any_other():
    def index(x, rows):
        return x[rows], x * rows[0].item()

    found = fxengine.capture(index, (X, torch.tensor([1, 2])))

    assert found.guards == ()
    assert torch._assert not in targets(found)
    rows = torch.tensor([4, 3])
    torch.testing.assert_close(found.graph_module(X, rows), index(X, rows))


def _flag(x, step):
    return x * 2 if step.item() > 3 else x


def _decision(x, labels):
    return x * 2 if (labels > 0).all() else x


def _tokens(x, tokens):
    return x[: sum(each > 1 for each in tokens.tolist())]


def _weights(x, weights):
    return x[: sum(each > 0 for each in weights.tolist())]


@pytest.mark.parametrize(
    ("model", "given"),
    [
        (_flag, torch.tensor(5)),
        (_decision, torch.tensor([1, 0])),
        (_tokens, torch.randint(0, 9, (2, 16)).flatten()),
        (_weights, torch.randn(3)),
        (pictures, SIZES.to("meta")),
    ],
)
def test_what_is_no_table_or_is_not_at_hand_stays_a_problem(model, given):
    found = fxengine.capture(model, (X, given))

    assert [type(problem.exception).__name__ for problem in found.problems] == ["DataDependent"]


class _OfPacked(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.GRU(3, 5)

    def forward(self, packed):
        rows, last = self.layer(packed)
        return torch.nn.utils.rnn.pad_packed_sequence(rows)[0], last


def test_packed_sequences_are_inputs_for_the_lengths_that_they_have():
    net = _OfPacked()

    found = fxengine.capture(net, (torch.nn.utils.rnn.pack_sequence([torch.randn(4, 3), torch.randn(2, 3)]),))

    fresh = torch.nn.utils.rnn.pack_sequence([torch.randn(4, 3), torch.randn(2, 3)])
    assert found.problems == ()
    torch.testing.assert_close(found.graph_module(fresh), net(fresh))
