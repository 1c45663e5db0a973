"""Constants that the code changes after the graph has used them: each use is of what was in them then."""

import pytest
import torch

from tests.support.capturing import captured

X = torch.randn(4, 3)


def _counted(x):
    shift, rows = torch.zeros(1), []
    for _ in range(3):
        rows.append(x + shift)
        shift += 1
    return torch.cat(rows)


def _by_a_view(x):
    weights, rows = torch.ones(2, 3), []
    for _ in range(3):
        rows.append(x * weights[0])
        weights.view(-1)[:3].mul_(2)
        weights[0, 1] = 5
    return torch.cat([*rows, x[:2] * weights])


def _between_offsets(x):
    start, rows = 0, []
    for size in torch.tensor([1, 2, 1]):
        rows.append(x[start : start + size] * 2)
        start += size
    return torch.cat(rows)


def _at_a_place(x):
    place, rows = torch.tensor(0), []
    for _ in range(3):
        rows.append(x[place])
        place += 1
    return torch.stack(rows)


def _as_a_length(x):
    count, rows = torch.tensor(1), []
    for _ in range(3):
        rows.append(torch.narrow(x, 0, 0, count))
        count.add_(1)
    return torch.cat(rows)


def _on_a_diagonal(x):
    kept = torch.eye(3)
    first = x @ kept
    kept.fill_diagonal_(2)
    return first + x @ kept


@pytest.mark.parametrize("code", [_counted, _by_a_view, _between_offsets, _at_a_place, _as_a_length, _on_a_diagonal])
def test_a_constant_is_what_it_was_where_it_was_used(code):
    assert captured(code, X).problems == ()
