"""Arrays that nobody has: what absent packages compute, and what files hold that are not there."""

import importlib
import sys

import numpy as np
import pytest
import torch

from fxworker.arguments import Search
from fxworker.arrays import shape_told
from fxworker.building import attempt
from fxworker.importing import importing

pytestmark = pytest.mark.usefixtures("imports_undone")

HEAD = "import numpy as np\nimport torch\nfrom torch import nn\nimport no_such_thing as absent\n"


def built(tmp_path, body, *, head=HEAD):
    """Return the module that a class `Net` builds whose constructor has a body."""
    lines = "".join(f"        {each}\n" for each in body)
    text = f"{head}class Net(nn.Module):\n    def __init__(self):\n        super().__init__()\n{lines}"
    (tmp_path / "project_file.py").write_text(text)
    importing(lambda: importlib.import_module("project_file"))
    return attempt(sys.modules["project_file"].Net)


def test_windows_and_filters_have_the_shapes_that_are_told(tmp_path):
    net = built(
        tmp_path,
        [
            "window = absent.centred(absent.get_window('hann', 40), size=48)",
            "self.register_buffer('window', torch.from_numpy(window).float())",
            "mel = absent.mel(sr=16000, n_fft=400, n_mels=80)",
            "self.register_buffer('mel', torch.from_numpy(mel.T).float())",
            "self.register_buffer('bank', absent.bank(n_freqs=201, n_mels=20))",
        ],
    )
    assert [tuple(each.shape) for each in net.buffers()] == [(48,), (201, 80), (201, 20)]


def test_what_makes_tensors_may_be_imported_by_its_name(tmp_path):
    net = built(
        tmp_path,
        [
            "self.taps = nn.Parameter(from_numpy(absent.design(size=33)).float())",
            "self.matrix = nn.Parameter(tensor(absent.loadmat('/no/bark.mat')['matrix'].astype('float32')))",
        ],
        head=f"{HEAD}from torch import from_numpy, tensor\n",
    )
    assert [tuple(each.shape) for each in net.parameters()] == [(33,), (64, 64)]
    assert sys.modules["project_file"].tensor is torch.tensor


def test_a_window_has_the_dimensions_that_it_is_padded_in(tmp_path):
    net = built(
        tmp_path,
        [
            "window = absent.get_window('hann', 40)",
            "sides = [(0, 0)] * window.ndim",
            "sides[-1] = (4, 4)",
            "self.register_buffer('window', torch.from_numpy(np.pad(window, sides)))",
        ],
    )
    assert net.window.shape == (48,)


def test_what_stands_for_arrays_is_joined(tmp_path):
    net = built(
        tmp_path,
        [
            "self.rows = nn.Parameter(torch.cat([absent.tokenize(each) for each in ('a', 'b')]))",
            "self.both = nn.Parameter(torch.stack([torch.ones(40), torch.from_numpy(absent.window(40))]))",
        ],
    )
    assert (net.rows.shape, net.both.shape) == ((128, 64), (2, 40))


def test_matrices_are_computed_with_as_numpys(tmp_path):
    net = built(
        tmp_path,
        [
            "matrix = absent.coo_matrix(np.ones((5, 5)))",
            "degrees = np.power(np.array(matrix.sum(1)).flatten(), -0.5)",
            "degrees[np.isinf(degrees)] = 0.0",
            "scaled = matrix.dot(absent.diags(degrees)).transpose().astype(np.float32).todense()",
            "self.support = nn.Parameter(torch.tensor(scaled, dtype=torch.float32))",
        ],
    )
    assert net.support.dtype is torch.float32


def test_files_of_arrays_that_are_not_there_have_ones(tmp_path):
    body = [
        "self.register_buffer('mean', torch.from_numpy(np.load('/no/mean.npy')[0]))",
        "with absent.File('/no/data.h5') as file:",
        "    self.register_buffer('field', torch.as_tensor(file['field'][0:3]))",
    ]
    assert built(tmp_path, body).mean.shape == (64,)
    with pytest.raises(FileNotFoundError):
        np.load("/no/mean.npy")


def test_an_array_is_made_of_what_was_given_while_a_model_is_built_alone(tmp_path):
    net = built(tmp_path, ["self.part = absent.Encoding()"])
    with pytest.raises(ModuleNotFoundError, match="no_such_thing"):
        np.asarray(net.part)
    with pytest.raises(TypeError):
        torch.from_numpy(net.part)


def test_what_is_told_of_shapes():
    assert shape_told(("hann", 40), {"fftbins": True}) == (40,)
    assert shape_told((), {"size": (3, 4)}) == (3, 4)
    assert shape_told((np.ones((2, 5)),), {}) == (2, 5)
    assert shape_told((1, 2, 3), {}) == (64, 64)


def test_parts_are_numbers_or_what_they_were_made_of(tmp_path):
    net = built(
        tmp_path,
        [
            "irreps = absent.Irreps('1x0e') + absent.Irreps('1x1o')",
            "self.wide = nn.Linear(irreps.dim, len(absent.make(8)) + 1)",
            "self.sorted = (irreps * 4).sort()",
            "self.kinds = [kind for _, kind in irreps]",
            "self.count = irreps.count(absent.Irrep(0, 1))",
            "self.conv = nn.Conv2d(absent.width_of() * 2, 4, 3)",
        ],
    )
    assert net.wide.out_features == 9
    assert net.kinds == []
    assert type(net.sorted).__name__ == "sort"
    assert net.count == 2
    assert net.conv.in_channels == 128


def test_a_class_may_call_the_constructor_of_an_absent_base_by_its_name(tmp_path):
    text = (
        f"{HEAD}class Net(absent.Network):\n"
        "    def __init__(self, width, D=3):\n        absent.Network.__init__(self, D)\n"
        "        self.fc = nn.Linear(width, D)\n    def forward(self, x): return self.fc(x)\n"
    )
    (tmp_path / "project_file.py").write_text(text)
    importing(lambda: importlib.import_module("project_file"))
    assert sys.modules["project_file"].Net(4).fc.in_features == 4


def test_what_is_annotated_with_a_class_of_an_absent_package_stands_for_one(tmp_path):
    text = (
        "from torch import nn\nfrom no_such_thing import o3\nfrom no_such_thing.o3 import Linear\n"
        "class Net(nn.Module):\n"
        "    def __init__(self, irreps_in: o3.Irreps, inner: Linear, num_steps):\n        super().__init__()\n"
        "        assert isinstance(irreps_in, o3.Irreps)\n        self.inner = inner\n"
        "        self.layers = nn.ModuleList(nn.Linear(irreps_in.dim, 4) for _ in range(num_steps))\n"
    )
    (tmp_path / "project_file.py").write_text(text)
    importing(lambda: importlib.import_module("project_file"))
    scope = vars(sys.modules["project_file"])
    expression, net = Search("Net", scope["Net"], scope, attempt).run()
    assert expression == "Net(irreps_in=o3.Irreps(), inner=Linear(), num_steps=2)"
    assert type(net.inner).__name__ == "Linear"


def test_numbers_are_drawn_around_those_of_tensors_without_values(tmp_path):
    lines = ["around = torch.normal(torch.ones(1, 8), std=torch.full((2, 1), 0.1))"]
    start = built(
        tmp_path,
        [
            *lines,
            "self.start = nn.Parameter(around)",
            "self.noise = torch.normal(0.0, 1.0, (2, 3))",
            "torch.normal(torch.tensor([1.0]), 0.1)",
        ],
    ).start
    assert (start.shape, start.device.type) == ((2, 8), "meta")


def test_what_is_made_of_an_array_of_a_shape_that_is_told_has_the_shape_that_follows(tmp_path):
    net = built(
        tmp_path,
        [
            "window = absent.get_window('hann', 40, fftbins=True).astype(np.float32).reshape((1, -1))",
            "kernels = np.multiply(np.cos(np.arange(21).reshape(-1, 1) * np.arange(40)), window)",
            "self.register_buffer('kernels', torch.from_numpy(kernels.astype(np.float32)))",
        ],
    )
    assert [tuple(each.shape) for each in net.buffers()] == [(21, 40)]


def test_a_table_of_an_absent_package_has_rows(tmp_path):
    net = built(
        tmp_path,
        [
            "count = min(20, len(absent.data.radii))",
            "radii = torch.tensor(absent.data.radii[:count], dtype=torch.float32)",
            "self.register_buffer('cutoffs', torch.arange(count) + radii[0, 0])",
        ],
    )
    assert [tuple(each.shape) for each in net.buffers()] == [(20,)]


def test_it_may_be_the_indices_of_a_tensor(tmp_path):
    net = built(
        tmp_path,
        [
            "rows, weights = absent.neighbours(size=8), torch.arange(30.0)",
            "self.taken = nn.Parameter(weights[rows] + torch.ones(5, 3)[1, rows[0]].sum())",
            "weights[rows] = 0.0",
        ],
    )
    assert net.taken.shape == (8,)
