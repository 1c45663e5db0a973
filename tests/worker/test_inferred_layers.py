"""Arguments that are layers, kinds of edges, slices and names: read by what only they have, or asked for later."""

from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from fxworker.arguments import Search
from fxworker.building import attempt
from tests.worker.harness import of


class Encoder(nn.Module):
    """Its table is known by what is read of it."""

    def __init__(self, embed_tokens, head):
        super().__init__()
        self.padding = embed_tokens.padding_idx + 1
        self.fc = nn.Linear(embed_tokens.embedding_dim, head.out_features)


class Pooled(nn.Module):
    """One norm that it need not be given, of pictures."""

    def __init__(self, width, norm_layer=None):
        super().__init__()
        self.conv = nn.Conv2d(width, width, 3)
        self.norm = norm_layer(width)


class Split(nn.Module):
    """Its slices make up the whole."""

    def __init__(self, width: int, ranges: list[slice]):
        super().__init__()
        if any(one.stop > other.start for one, other in pairwise(ranges)):
            raise ValueError("ranges overlap")
        self.fc = nn.Linear(width, sum(each.stop - each.start for each in ranges))


class Hetero(nn.Module):
    def __init__(self, metadata, width):
        super().__init__()
        self.parts = nn.ModuleDict({"-".join(kind): nn.Linear(width, 2) for kind in metadata[1]})
        self.tables = nn.ModuleDict({name: nn.Linear(width, 2) for name in metadata[0]})


class Annotated(nn.Module):
    def __init__(self, edges: list[tuple[str, str, str]], nodes: list[str]):
        super().__init__()
        self.parts = nn.ModuleDict({"-".join(kind): nn.Linear(2, 2) for kind in edges})
        assert {kind[0] for kind in edges} <= set(nodes)


class Paired(nn.Module):
    """Its kinds of edges are pairs, whatever others have."""

    def __init__(self, edge_types):
        super().__init__()
        self.parts = nn.ModuleDict({f"{one}-{other}": nn.Linear(2, 2) for one, other in edge_types})


@dataclass
class Sized:
    depth: int | None = None
    width: int | None = None


class Table(nn.Module):
    """What its configuration has by default is nothing, of which `torch.empty` says something else."""

    def __init__(self, cfg: Sized):
        super().__init__()
        self.table = nn.Parameter(torch.empty(cfg.depth, cfg.width))


class Upscale(nn.Module):
    """One of its parts is made, and called by a name that classes have as well."""

    def __init__(self, in_c, norm, act):
        super().__init__()
        self.conv = nn.Sequential(
            norm(in_c),
            act,
            nn.Conv2d(in_c, in_c, 1),
        )


class Copula(nn.Module):
    def __init__(self, width, decoder=None):
        super().__init__()
        assert decoder is not None, "select a decoder"
        self.fc = nn.Linear(width, decoder["dim"])


class Shell(nn.Module):
    """Hands all arguments on; the constructor that takes them wants one that need not be given."""

    def __init__(self, parameters: dict):
        super().__init__()
        self.inner = Copula(**parameters)


class Headed(nn.Module):
    """What its message writes out is what it is about, whatever it is called."""

    def __init__(self, width, sizes):
        super().__init__()
        sizes = sizes if isinstance(sizes, int) else sizes[:]
        if not isinstance(sizes, int) and not (isinstance(sizes, list | tuple) and len(sizes) == 1):
            raise ValueError(f"dims should be either an integer or a collection of one, but {sizes} provided.")
        self.fc = nn.Linear(width, sizes if isinstance(sizes, int) else sizes[0])


@pytest.mark.parametrize(
    ("cls", "expression", "trials"),
    [
        (
            Encoder,
            "Encoder(embed_tokens=torch.nn.Embedding(1000, 64, padding_idx=0), head=torch.nn.Linear(64, 64))",
            1,
        ),
        (Pooled, "Pooled(width=64, norm_layer=torch.nn.BatchNorm2d)", 3),
        (Split, "Split(width=64, ranges=[slice(0, 32), slice(32, 64)])", 1),
        (Hetero, "Hetero(metadata=(['a', 'b'], [('a', 'to', 'b'), ('b', 'to', 'a')]), width=64)", 1),
        (Annotated, "Annotated(edges=[('a', 'to', 'b'), ('b', 'to', 'a')], nodes=['a', 'b'])", 1),
        (Paired, "Paired(edge_types=[(2, 2), (2, 2)])", 3),
        (Table, "Table(cfg=Sized(depth=2, width=64))", 4),
        (Upscale, "Upscale(in_c=3, norm=torch.nn.BatchNorm2d, act=torch.nn.Identity())", 3),
        (Shell, "Shell(parameters={'width': 64, 'decoder': {'dim': 64}})", 6),
        (Headed, "Headed(width=64, sizes=64)", 8),
    ],
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_they_are_found(cls, expression, trials):
    scope = {"torch": torch, "SimpleNamespace": SimpleNamespace, **globals()}
    search = Search(cls.__name__, cls, scope, partial(attempt, real=False))
    found = search.run()
    assert found is not None, (search.tried, search.error)
    assert found[0] == expression
    assert search.trials <= trials


NAMED = """import torch
from torch import nn


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 64, 3, padding=1)

    def forward(self, x):
        first = self.stem(x)
        return {"input": x, "stage0": first, "stage1": first * 2}


class Neck(nn.Module):
    def __init__(self, names: list[str], widths: list[int]):
        super().__init__()
        self.names = names
        self.parts = nn.ModuleList([nn.Conv2d(width, 8, 1) for width in widths])

    def forward(self, features):
        return sum(part(features[name]) for name, part in zip(self.names, self.parts))


class Net(nn.Module):
    def __init__(self, backbone: Backbone, neck: Neck):
        super().__init__()
        self.backbone, self.neck = backbone, neck

    def forward(self, x):
        return self.neck(self.backbone(x))
"""

NORMED = """import torch
from torch import nn


def block(width, norm):
    return nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.AdaptiveAvgPool2d(2), norm(width))


class Stage(nn.Module):
    def __init__(self, width, norm_layer):
        super().__init__()
        self.body = block(width, norm_layer)

    def forward(self, x):
        return self.body(x)
"""

LOOKED_UP = """import torch
from torch import nn


class Kinds(nn.Module):
    def __init__(self, node_types):
        super().__init__()
        self.tables = nn.ModuleDict({name: nn.Linear(16, 4) for name in node_types})

    def forward(self, x_dict):
        out = {name: table(x_dict[name]) for name, table in self.tables.items()}
        return out["paper"].relu()
"""


@pytest.mark.parametrize(
    ("text", "name", "construct"),
    [
        (NAMED, "Net", "neck=Neck(names=['stage0', 'stage1'], widths=[64, 64])"),
        (NORMED, "Stage", "norm_layer=torch.nn.BatchNorm2d"),
        (LOOKED_UP, "Kinds", "'paper'"),
    ],
)
def test_what_a_forward_refuses_changes_them(worker, tmp_path, text, name, construct):
    path = tmp_path / "file.py"
    path.write_text(text)
    target = of(worker.trace(path), name)
    assert construct in target.construct.expression
    assert (target.status, target.problems) == ("complete", ())
    assert target.inputs is not None
