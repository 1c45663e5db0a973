"""Steps of random models of ordinary Python code that is hard to capture: none decides anything by data.

Each is a line of the constructor and one of `forward`, in which `{n}` is the number of the step; what they use beside
torch stands in `capture_parts`.
"""

_LINEAR = "self.layer{n} = nn.Linear(4, 4)"

CODE_STEPS = {
    # Hooks, parametrizations, other parameters.
    "hook": (
        _LINEAR + "\nself.layer{n}.register_forward_hook(lambda m, i, o: o * 2)",
        "x = self.layer{n}(x)",
    ),
    "pre hook": (
        _LINEAR + "\nself.layer{n}.register_forward_pre_hook(lambda m, i: (i[0] + 1,))",
        "x = self.layer{n}(x)",
    ),
    "hook with keywords": (
        (
            "self.part{n} = Inner()\nself.part{n}.register_forward_pre_hook("
            "lambda m, a, k: (a, {{**k, 'bias': 2.0}}), with_kwargs=True)"
        ),
        "x = self.part{n}(x, bias=1.0)",
    ),
    "recording hook": (
        "self.seen{n} = {{}}\n" + _LINEAR + "\n"
        "self.layer{n}.register_forward_hook(lambda m, i, o: self.seen{n}.update(y=o))",
        "x = self.layer{n}(x) + self.seen{n}['y']",
    ),
    "temporary hook": (
        _LINEAR,
        (
            "handle = self.layer{n}.register_forward_hook(lambda m, i, o: o + 1)\nx = self.layer{n}(x)\n"
            "handle.remove()\n"
            "x = self.layer{n}(x)"
        ),
    ),
    "tensor hook": ("", "x = x + 0\nif x.requires_grad:\n    x.register_hook(lambda g: g * 2)"),
    "weight norm": ("self.layer{n} = nn.utils.weight_norm(nn.Linear(4, 4))", "x = self.layer{n}(x)"),
    "weight norm parametrized": (
        "self.layer{n} = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))",
        "x = self.layer{n}(x)",
    ),
    "spectral norm": ("self.layer{n} = nn.utils.spectral_norm(nn.Linear(4, 4))", "x = self.layer{n}(x)"),
    "spectral norm parametrized": (
        "self.layer{n} = nn.utils.parametrizations.spectral_norm(nn.Linear(4, 4))",
        "x = self.layer{n}(x)",
    ),
    "orthogonal": (
        "self.layer{n} = nn.utils.parametrizations.orthogonal(nn.Linear(4, 4))",
        "x = self.layer{n}(x)",
    ),
    "parametrized": (
        _LINEAR + "\nnn.utils.parametrize.register_parametrization(self.layer{n}, 'weight', Doubled())",
        "with nn.utils.parametrize.cached():\n    x = self.layer{n}(self.layer{n}(x))\nx = x @ self.layer{n}.weight",
    ),
    "pruned": (
        _LINEAR + "\nprune.l1_unstructured(self.layer{n}, 'weight', amount=0.5)",
        "x = self.layer{n}(x)",
    ),
    "functional call": (
        _LINEAR,
        "x = torch.func.functional_call(self.layer{n}, {{'weight': self.layer{n}.weight * 2}}, (x,))",
    ),
    "tied": (
        _LINEAR + "\nself.other{n} = nn.Linear(4, 4)\nself.other{n}.weight = self.layer{n}.weight",
        "x = self.layer{n}(x) + self.other{n}(x)",
    ),
    "shared": (_LINEAR + "\nself.again{n} = self.layer{n}", "x = self.again{n}(self.layer{n}(x))"),
    "buffer of a part": (
        "self.part{n} = Inner()\nself.part{n}.register_buffer('shift', torch.ones(4))",
        "x = self.part{n}(x) + self.part{n}.shift\nx = x @ self.part{n}.doubled",
    ),
    "checkpoint": (
        _LINEAR,
        "x = torch.utils.checkpoint.checkpoint(self.layer{n}, x, use_reentrant=False)",
    ),
    "reentrant": (
        _LINEAR,
        "x = torch.utils.checkpoint.checkpoint(lambda v: self.layer{n}(v).relu(), x, use_reentrant=True)",
    ),
    "straight through": ("", "x = x + Straight.apply(x, 2)"),
    "quantised": ("", "x = x + (x.round() - x).detach()"),
    "transformed": (
        "self.part{n} = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)",
        "x = self.part{n}(x[None])[0]",
    ),
    "recurrent": (
        "self.part{n} = nn.LSTM(4, 4, batch_first=True)\nself.cell{n} = nn.GRUCell(4, 4)",
        (
            "y, (h, c) = self.part{n}(x[None])\nx = y[0] + h[0]\nfor row in x.unbind():\n"
            "    c = self.cell{n}(row[None], c[0] if c.dim() == 3 else c)\nx = x + c"
        ),
    ),
    "packed": (
        "self.part{n} = nn.GRU(4, 4, batch_first=True)",
        (
            "packed = nn.utils.rnn.pack_padded_sequence("
            "x[None].repeat(2, 1, 1), torch.tensor([2, 1]), batch_first=True)\n"
            "y, _ = self.part{n}(packed)\ny, lengths = nn.utils.rnn.pad_packed_sequence(y, batch_first=True)\n"
            "x = x + y[0, : lengths[0]].sum()"
        ),
    ),
    # Containers and objects.
    "nested containers": ("", "y = {{'a': [x, (x * 2, Named(x + 1, x))]}}\nx = y['a'][1][0] + y['a'][1][1].first"),
    "dataclass": ("", "pair = Pair(x, {{'k': x * 2}})\nx = pair.both\npair.left = x + 1\nx = x + pair.left"),
    "replaced": ("", "pair = dataclasses.replace(Pair(x), right={{'k': x + 1}})\nx = pair.both"),
    "slots": ("", "box = Slotted(x)\nbox.value = box.value * 2\nx = box.value"),
    "mapping": ("", "table = Table(k=x)\ntable['j'] = table.k * 2\nx = table.j + table.pop('k')"),
    "unpacked": ("", "first, *others = [x, x * 2, x * 3]\nx = sum(others, first)"),
    "zipped": ("", "x = sum(a * b for a, b in zip([x, x + 1], (2.0, 3.0), strict=True))"),
    "sorted": ("", "x = [y for _, y in sorted({{2: x, 1: x * 2}}.items())][0]"),
    "negative index": (
        "self.list{n} = nn.ModuleList([nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4)])",
        "x = self.list{n}[-1](x)\nfor part in self.list{n}[:-1]:\n    x = part(x)",
    ),
    "sequential slice": (
        "self.list{n} = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 4))",
        "x = self.list{n}[:2](x)\nx = self.list{n}[-1](x) + len(self.list{n})",
    ),
    "module dict": (
        "self.dict{n} = nn.ModuleDict({{'a': nn.Linear(4, 4), 'b': nn.Tanh()}})",
        "for name, part in self.dict{n}.items():\n    x = part(x) if name in self.dict{n} else x",
    ),
    "parameter list": (
        (
            "self.list{n} = nn.ParameterList([torch.ones(4), torch.zeros(4)])\n"
            "self.dict{n} = nn.ParameterDict({{'k': torch.ones(4)}})"
        ),
        "for each in self.list{n}:\n    x = x + each\nx = x * self.dict{n}['k']",
    ),
    "plain list of parts": ("self.parts{n} = [nn.Linear(4, 4)]", "x = self.parts{n}[0](x)"),
    # Functions.
    "partial": ("", "x = functools.partial(torch.add, alpha=2)(x, x)"),
    "closure": ("", "def scaled_by(k):\n    return lambda v: v * k\nx = scaled_by(x.shape[1])(x)"),
    "decorated": ("", "x = decorated(x, by=3)"),
    "generator function": ("", "x = torch.stack(list(rows_of(x)))"),
    "manager": ("", "with scaled({{}}) as record:\n    x = x * record['scale']\nx = x * record['scale']"),
    "keyword only": ("self.part{n} = Inner()", "x = self.part{n}(x, bias=x, mode='sum', more=1.0, other=x)"),
    "getter": ("self.part{n} = Inner()", "x = x * getattr(self.part{n}, 'scale') + self.part{n}.secret"),
    "setter": ("", "holder = Table()\nsetattr(holder, 'k', x)\nx = getattr(holder, 'k') * 2"),
    "reduced": ("", "x = functools.reduce(operator.add, [x, x * 2, 1.0])"),
    "mapped": ("", "x = torch.cat(list(map(lambda v: v * 2, x.split(1))))"),
    "method table": ("", "x = getattr(torch, {{'a': 'sin', 'b': 'cos'}}['b'])(x)"),
    # Decisions by what is known.
    "enum": ("self.mode{n} = Mode.SLOW", "x = x * 2 if self.mode{n} is Mode.FAST else x * 3"),
    "string": (
        "self.mode{n} = 'b'",
        "match self.mode{n}:\n    case 'a':\n        x = x + 1\n    case _:\n        x = x - 1",
    ),
    "try": ("", "try:\n    x = x.view(3, 3)\nexcept RuntimeError:\n    x = x.view(x.shape) * 2"),
    "try type": ("", "try:\n    x = x + 'text'\nexcept TypeError:\n    x = x + 2"),
    "finally": ("", "try:\n    x = x * 2\nfinally:\n    x = x + 1"),
    "text": ("", "name = f'{{x.shape[0]}}x{{x.shape[1]:d}} {{x.dtype}} {{tuple(x.size())!r}}'\nx = x + len(name)"),
    "assert": ("", "assert x.dim() == 2 and x.shape[-1] == 4, f'is {{x.shape}}'"),
    "sizes": (
        "",
        (
            "b, c = x.shape\n"
            "x = x * (c // 3) + c % 3 + math.ceil(c / 3) + (b - 1) * -(-c // 3) + max(b, c) + divmod(c, 3)[1]"
        ),
    ),
    "comparison": ("", "x = x * 2 if 0 < x.shape[0] <= 3 < x.size(1) else x - 1"),
    "size": (
        "",
        (
            "s = x.shape\nx = x.reshape(*s[:1], -1).view(s) + s.numel() + len(s[1:] + (1,)) + (4 in s) + s.index(4)\n"
            "x = x + torch.zeros(s[::-1]).t() + (s == torch.Size([2, 4])) + s.count(2)"
        ),
    ),
    "padded": ("", "gap = -x.shape[1] % 6\nx = nn.functional.pad(x, (0, gap))[:, : x.shape[1]] + gap"),
    "rank": ("", "x = x if x.ndim == 3 else x.unsqueeze(0)\nx = x.flatten(0, 1) if len(x.shape) > 2 else x"),
    "type": ("", "x = x.double().float() if x.dtype is not torch.float64 else x + 1"),
    "device": ("", "x = x + torch.ones(4, device=x.device, dtype=x.dtype) if x.device.type == 'cpu' else x"),
    "instance": ("", "x = x * 2 if isinstance(x, torch.Tensor) and not isinstance(x, nn.Parameter) else x"),
    "grown": ("", "while x.shape[0] < 5:\n    x = torch.cat([x, x])\nx = x[:2]"),
    "pieces": (
        "",
        "total = 0\nfor i, part in enumerate(x.chunk(3, 1)):\n    total = total + part.sum() * i\nx = x + total",
    ),
    "tensor split": ("", "x = x + sum(part.sum() * part.shape[0] for part in x.tensor_split(3))"),
    "split sizes": ("", "a, b = x.split([1, 3], dim=-1)\nx = torch.cat([b, a], dim=-1)"),
    "unbound": ("", "x = torch.stack([row * (i + 1) for i, row in enumerate(x.unbind(1))], 1)"),
    "rows": ("", "x = torch.stack([row.flip(0) for row in x])"),
    "reversed rows": ("", "x = torch.stack(list(reversed(x)))\nx = x + sum(x)"),
    "length": ("", "x = x * len(x)"),
    "range": ("", "for i in range(x.size(0)):\n    x = x + x[i]"),
    # Types and numbers.
    "promoted": ("", "x = x + torch.tensor(1.5, dtype=torch.float64) + torch.arange(4) * True"),
    "scalar": ("", "x = x * torch.tensor(2) - torch.scalar_tensor(1.0)"),
    "constant item": ("", "x = x * torch.arange(4).max().item() + float(torch.tensor(0.5)) + int(torch.tensor(3))"),
    "half": ("", "x = (x.half() + 1).float() + x.bfloat16()"),
    "boolean": ("", "x = (x > 0) * x + (x > 0).sum() + ~(x > 0)"),
    "integer": ("", "x = x + x.long().bitwise_and(3) // 2 + (x.int() << 1)"),
    "numpy constant": ("", "x = x * np.float32(2.0) + torch.from_numpy(np.arange(4.0)).float() + np.sqrt(4)"),
    "finite": ("", "x = x.masked_fill(x < 0, torch.finfo(x.dtype).min).clamp(min=-10.0)"),
    "result type": (
        "",
        "x = x.to(torch.result_type(x, 1.0)).type_as(x) + torch.promote_types(x.dtype, torch.int).itemsize",
    ),
    # Indices, views, in place.
    "masks": ("", "mask = torch.tensor([True, False, True, True])\nx = torch.cat([x[:, mask], x[:, ~mask]], 1)"),
    "advanced": ("", "x = x[torch.tensor([1, 0])][:, [3, 2, 1, 0]][..., None, :][:, 0]"),
    "mixed": ("", "x = x + x[None, :, torch.arange(4), ...].squeeze(0)[[0, 1], 1:][..., -1:]"),
    "mask set": ("", "x = x.clone()\nx[:, torch.tensor([True, False, False, True])] = 0.0\nx[x.isnan()] = 1"),
    "stepped": ("", "x = x.clone()\nx[::2, 1::2] += 1\nx[..., -1] *= x[..., 0]"),
    "chosen": ("", "x = torch.where(x > 0, x, torch.where(x < -1, 1.0, x * 2))"),
    "scattered": (
        "",
        (
            "x = x.clone().scatter_(1, torch.zeros(2, 1, dtype=torch.long), 1.0)\n"
            "x = torch.zeros(2, 4).scatter_add_(1, (x > 0).long(), x) + x"
        ),
    ),
    "index add": (
        "",
        (
            "x = x.clone().index_add_(0, torch.tensor([0, 0]), x)\nx.index_fill_(1, torch.tensor([2]), 3.0)\n"
            "x = x.index_copy(0, torch.tensor([1]), x[:1])"
        ),
    ),
    "gathered": ("", "x = x.gather(1, x.argsort(1)) + x.take_along_dim(x.argmax(1, keepdim=True), 1)"),
    "view set": ("", "x = x.clone()\nv = x.view(4, 2)\nv[1:3].mul_(2)\nw = v.t()\nw[0] = 5\nx = x + v.sum() + w[1, 2]"),
    "expanded": ("", "y = x[:1].expand(2, 4)\nx = x + y\nx.transpose(0, 1).add_(1)\nx = x * y.contiguous()"),
    "unbound set": ("", "x = x.clone()\nfor i, row in enumerate(x.unbind()):\n    row.mul_(i + 2)\nx = x + 1"),
    "chunk set": ("", "x = x.clone()\na, b = x.chunk(2, dim=1)\na.add_(b)\nb.zero_()\na = a + 1\nx = x * a.sum()"),
    "strided": ("", "x = x.clone()\nx.as_strided((2,), (5,)).fill_(1.0)\nx = x + x.diagonal().sum()"),
    "filled rows": (
        "",
        (
            "y = torch.empty(2, 4)\nfor i in range(2):\n    y[i] = x[i] * i\nz = x.new_zeros(2, 4)\n"
            "z[:, :2] = x[:, 2:]\nx = y + z"
        ),
    ),
    "operator in place": ("", "x = x.clone()\ny = x\ny += 1\ny @= torch.eye(4)\nx = x + y\nx //= 1"),
    "copied": ("", "y = torch.empty_like(x)\ny.copy_(x)\ny.resize_(2, 2)\nx = x + y.sum()"),
    "out of two": (
        "",
        (
            "v, i = torch.empty(2), torch.empty(2, dtype=torch.long)\n"
            "torch.max(x.detach(), 1, out=(v, i))\nx = x + v[:, None] + i[:, None]"
        ),
    ),
    "out view": ("", "y = torch.zeros(4, 4)\ntorch.mul(x.detach(), 2, out=y[1:3])\nx = x + y.sum(0)"),
    "inplace activation": ("", "x = nn.functional.relu_(x * 2)\nx = nn.functional.relu(x - 1, inplace=True) + x"),
    # Other kinds of computation.
    "fourier": ("", "x = x + torch.fft.irfft(torch.fft.rfft(x) * torch.exp(1j * torch.arange(3)), n=4)"),
    "complex": (
        "",
        "z = torch.view_as_complex(x.view(2, 2, 2).contiguous())\nx = torch.view_as_real(z * z.conj()).flatten(1)",
    ),
    "polar": ("", "z = torch.polar(x.abs(), x)\nx = z.real + z.imag + z.angle() + z.abs()"),
    "windowed": (
        "",
        (
            "y = torch.stft(x.flatten(), 4, 2, window=torch.hann_window(4), return_complex=True)\n"
            "x = x + torch.istft(y, 4, 2, window=torch.hann_window(4), length=8).view(2, 4)"
        ),
    ),
    "sparse": ("", "x = torch.sparse.mm(torch.eye(4).to_sparse(), x.t()).t()"),
    "sparse buffer": (
        "self.register_buffer('eye{n}', torch.eye(4).to_sparse())",
        "x = (self.eye{n} @ x.t()).t() + torch.sparse.sum(self.eye{n})",
    ),
    "einsum": ("", "x = torch.einsum('ij,kj->ik', x, x) @ x + torch.einsum('b...,b...->b...', x, x)"),
    "tensordot": ("", "x = torch.tensordot(x, torch.ones(4, 4), dims=1) + torch.kron(x[:1], torch.ones(2, 1))"),
    "solved": ("", "x = torch.linalg.solve(torch.eye(4) * 2, x.t()).t() + torch.linalg.det(x @ x.t() + torch.eye(2))"),
    "log determinant": (
        "self.weight{n} = nn.Parameter(torch.randn(4, 4))",
        "x = x @ self.weight{n} + torch.slogdet(self.weight{n})[1] + torch.linalg.qr(self.weight{n}).R.sum()",
    ),
    "mixture": (
        "self.gate{n} = nn.Linear(4, 3)\nself.experts{n} = nn.ModuleList(nn.Linear(4, 4) for _ in range(3))",
        (
            "weights, chosen = self.gate{n}(x).softmax(-1).topk(2)\ny = torch.zeros_like(x)\n"
            "for i, expert in enumerate(self.experts{n}):\n"
            "    y = y + expert(x) * (weights * (chosen == i)).sum(-1, keepdim=True)\nx = y"
        ),
    ),
    "mixture of selected": (
        "self.experts{n} = nn.ModuleList(nn.Linear(4, 4) for _ in range(2))",
        (
            "y = torch.zeros_like(x)\nfor i, expert in enumerate(self.experts{n}):\n"
            "    rows = torch.where(x.argmax(-1) % 2 == i)[0]\n    y.index_add_(0, rows, expert(x[rows]))\nx = y"
        ),
    ),
    "solver": (
        _LINEAR,
        (
            "t, dt = 0.0, 0.25\nwhile t < 1.0:\n    k = torch.tanh(self.layer{n}(x))\n"
            "    x = x + dt * self.layer{n}(x + dt / 2 * k)\n    t += dt"
        ),
    ),
    "sampled": (
        "self.register_buffer('betas{n}', torch.linspace(0.1, 0.2, 5))",
        (
            "kept = (1 - self.betas{n}).cumprod(0)\nfor t in reversed(range(5)):\n"
            "    x = (x - self.betas{n}[t] * x.tanh()) / kept[t].sqrt()\n    if t > 0:\n"
            "        x = x + kept[t - 1] * 0.1"
        ),
    ),
    "keys": (
        "",
        (
            "cache = []\nfor step in range(3):\n    cache.append(x[:, step : step + 1])\n"
            "    y = torch.cat(cache, dim=1)\n"
            "x = x + y.mean(1, keepdim=True)"
        ),
    ),
    "made mask": (
        _LINEAR + "\nself.register_buffer('mask{n}', torch.tril(torch.ones(4, 4)))",
        "x = nn.functional.linear(x, self.layer{n}.weight * self.mask{n}, self.layer{n}.bias)",
    ),
    "attention": (
        "self.part{n} = nn.MultiheadAttention(4, 2, batch_first=True)",
        (
            "y, weights = self.part{n}(x[None], x[None], x[None], attn_mask=torch.ones(2, 2).triu(1).bool())\n"
            "x = y[0] + weights.sum()"
        ),
    ),
    "distribution": (
        "",
        (
            "x = torch.distributions.Normal(x, 1.0).log_prob(x * 2) + torch.distributions.kl_divergence("
            "torch.distributions.Normal(x, 1.0), torch.distributions.Normal(0.0, 1.0))"
        ),
    ),
    "wrapped call": ("", "x = torch.utils._pytree.tree_map(lambda v: v * 2, {{'a': [x]}})['a'][0]"),
    "deep copy": (_LINEAR, "x = copy.deepcopy(self.layer{n})(x)"),
    "grad mode asked": ("", "x = x * 2 if torch.is_grad_enabled() else x + 1"),
    "default type": ("", "x = x + torch.zeros(4, dtype=torch.get_default_dtype())"),
    "vectorised": ("", "x = torch.vmap(lambda v, k: v * k, in_dims=(0, None))(x, torch.arange(4.0))"),
    "detached copy": ("", "y = x.detach().clone()\ny[0] = 0\nx = x + y + x.data"),
    "summed dict": (
        "",
        (
            "totals = collections.defaultdict(float)\nfor i, row in enumerate(x):\n"
            "    totals[i % 1] += row\nx = x + totals[0]"
        ),
    ),
    "meshgrid": (
        "",
        "a, b = torch.meshgrid(torch.arange(x.shape[0]), torch.arange(x.shape[1]), indexing='ij')\nx = x + a * b",
    ),
    "interpolated": ("", "x = nn.functional.interpolate(x[None], scale_factor=1.5, mode='linear')[0][:, : x.shape[1]]"),
    "walrus": ("", "if (size := x.shape[1]) > 3:\n    x = x / size"),
    "any of sizes": ("", "x = x + 1 if any(s > 3 for s in x.shape) and all(x.shape) else x - 1"),
    "isin": ("", "x = x * torch.isin(x.long(), torch.tensor([0, 1])) + torch.bucketize(x.detach(), torch.arange(3.0))"),
    "one hot": ("", "x = x + nn.functional.one_hot(x.argmax(1), 4).float() @ torch.ones(4, 4)"),
    "looked up": ("self.table{n} = nn.Embedding(9, 4)", "x = x + self.table{n}(x.argmax(1))"),
    "rolled": ("", "x = torch.roll(x, shifts=x.shape[0] - 1, dims=1).flip(-1).movedim(0, 1).T"),
    "unfolded": (
        "",
        "x = x.unfold(1, 2, 1).sum(-1).repeat(1, 2)[:, :4] + nn.functional.pad(x, (1, 1), mode='reflect')[:, 1:5]",
    ),
}
