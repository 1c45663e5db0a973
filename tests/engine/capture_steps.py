"""Steps of random models of what goes on from run to run, changes in place, draws, and asks what data tell.

Each is a line of the constructor and one of `forward`, in which `{n}` is the number of the step.
"""

STATE_STEPS = {
    # What each computes with.
    "layer": ("self.layer{n} = nn.Linear(4, 4)", "x = self.layer{n}(x)"),
    "weight": ("self.weight{n} = nn.Parameter(torch.randn(4))", "x = x * self.weight{n}"),
    "constant": ("", "x = x + torch.arange(4.0)"),
    # Plain Python that goes on.
    "counter": ("self.step{n} = 0", "self.step{n} += 1"),
    "scaled": ("self.step{n} = 0", "self.step{n} += 1\nx = x * self.step{n}"),
    "first": ("self.begun{n} = False", "x = x if self.begun{n} else x * 2\nself.begun{n} = True"),
    "every other": ("self.step{n} = 0", "x = x * 2 if self.step{n} % 2 else x\nself.step{n} += 1"),
    "late": ("self.step{n} = 0", "self.step{n} += 1\nif self.step{n} > 2:\n    x = x + 1"),
    "previous": ("self.last{n} = None", "y = x if self.last{n} is None else x + self.last{n}\nself.last{n} = x\nx = y"),
    "kept": ("", "self.kept{n} = x"),
    "appended": ("self.seen{n} = []", "self.seen{n}.append(x)\nx = x + self.seen{n}[0]"),
    "window": ("self.seen{n} = deque(maxlen=2)", "self.seen{n}.append(x)\nx = sum(self.seen{n})"),
    "lazy": (
        "self.table{n} = None",
        "if self.table{n} is None:\n    self.table{n} = torch.ones(4) * 2\nx = x * self.table{n}",
    ),
    "lazy weight": (
        "self.weight{n} = nn.Parameter(torch.randn(4))\nself.table{n} = {{}}",
        "if not self.table{n}:\n    self.table{n}['w'] = self.weight{n}.detach().exp()\nx = x * self.table{n}['w']",
    ),
    "cache": (
        "self.cache{n} = torch.zeros(6, 4)\nself.at{n} = 0",
        "self.cache{n}[self.at{n} : self.at{n} + 2] = x.detach()\nself.at{n} += 2\nx = x + self.cache{n}.sum(0)",
    ),
    "object": ("self.record{n} = Record()", "x = x + self.record{n}.value\nself.record{n}.value = x.detach()"),
    "class": ("", "x = x + Record.shared\nRecord.shared = x.detach().sum()"),
    "global": ("", "x = x + TABLE.get('x', 0)\nTABLE['x'] = x.detach().mean()"),
    "remembered": ("", "x = x * remembered(x.shape[1])"),
    "swapped": (
        "self.one{n}, self.two{n} = nn.Linear(4, 4), nn.Linear(4, 4)",
        "self.one{n}, self.two{n} = self.two{n}, self.one{n}\nx = self.one{n}(x)",
    ),
    # Tensors of the model's own that change.
    "buffer": (
        "self.register_buffer('sum{n}', torch.zeros(4))",
        "self.sum{n}.add_(x.detach().sum(0))\nx = x + self.sum{n}",
    ),
    "moved": (
        "self.register_buffer('sum{n}', torch.zeros(2, 4))",
        "self.sum{n} = self.sum{n} * 0.5 + x.detach()\nx = x + self.sum{n}",
    ),
    "attribute": (
        "self.sum{n} = torch.zeros(2, 4)",
        "self.sum{n} = self.sum{n} * 0.5 + x.detach()\nx = x - self.sum{n}",
    ),
    "ping": (
        "self.register_buffer('a{n}', torch.zeros(2, 4))\nself.register_buffer('b{n}', torch.zeros(2, 4))",
        "self.a{n}, self.b{n} = self.b{n}, self.a{n}\nself.a{n}.add_(x.detach())\nx = x + self.b{n}",
    ),
    "table": ("self.rows{n} = {{'h': torch.zeros(4)}}", "x = x + self.rows{n}['h']\nself.rows{n}['h'].add_(1)"),
    "row": (
        "self.register_buffer('rows{n}', torch.zeros(3, 4))",
        "row = self.rows{n}[1]\nself.rows{n}.mul_(2).add_(1)\nx = x + row",
    ),
    "norm": ("self.norm{n} = nn.BatchNorm1d(4)", "x = self.norm{n}(x)"),
    "data": ("self.weight{n} = nn.Parameter(torch.randn(4))", "self.weight{n}.data.mul_(0.5)\nx = x * self.weight{n}"),
    "set data": (
        "self.weight{n} = nn.Parameter(torch.randn(4))",
        "self.weight{n}.data = self.weight{n}.data * 0.5\nx = x * self.weight{n}",
    ),
    "new weight": (
        "self.weight{n} = nn.Parameter(torch.randn(4))",
        "self.weight{n} = nn.Parameter(self.weight{n}.detach() + 1)\nx = x * self.weight{n}",
    ),
    "normed": (
        "self.weight{n} = nn.Parameter(torch.randn(4))",
        "with torch.no_grad():\n    self.weight{n}.div_(self.weight{n}.norm())\nx = x * self.weight{n}",
    ),
    "decides": (
        "self.register_buffer('count{n}', torch.zeros(()))",
        "if self.count{n} < 1:\n    x = x * 2\nself.count{n} += 1",
    ),
    # In place, by views, by `out`.
    "in place": ("", "x = x + 0\nx.mul_(2)"),
    "input": ("", "inputs.add_(1)"),
    "view": ("", "x = x + 0\npart = x[:, 1:3]\npart.zero_()\nx.t()[0].add_(1)\nx = x + part.sum()"),
    "late view": ("", "x = x + 0\npart = x.view(-1)[2:6]\ny = part * 2\nx += 1\nx = x + y.sum() + part.sum()"),
    "set item": ("", "x = x.clone()\nx[0] = 1\nx[:, 1] = x[:, 2]"),
    "masked": ("", "x = x.clone()\nx[x < 0] = 0.5"),
    "out": ("", "y = torch.empty(2, 4)\ntorch.add(x.detach(), 1, out=y)\nx = x + y"),
    "out resized": ("", "y = torch.empty(0)\ntorch.mul(x.detach(), 2, out=y)\nx = x + y"),
    "filled": ("", "y = torch.zeros(2, 4)\nz = y\ny[0] = x.detach()[1]\nx = x + z"),
    # Random numbers.
    "rand": ("", "x = x + torch.rand(4)"),
    "dropout": ("self.dropout{n} = nn.Dropout(0.5)", "x = self.dropout{n}(x)"),
    "functional dropout": ("", "x = nn.functional.dropout(x, 0.5, self.training)"),
    "drawn": ("", "x = x * nn.functional.dropout(torch.ones(4), 0.5, True)"),
    "gumbel": ("", "x = x + nn.functional.gumbel_softmax(torch.ones(4))"),
    "generator": (
        "self.generator{n} = torch.Generator().manual_seed(1)",
        "x = x + torch.rand(4, generator=self.generator{n})",
    ),
    "seeded": ("", "torch.manual_seed(3)\nx = x + torch.randn(4)"),
    "python": ("", "x = x * random.random()"),
    "skipped": ("", "if random.random() < 0.1:\n    x = x * 2"),
    "numpy": ("", "x = x + float(np.random.rand())"),
    "permuted": ("", "x = x[:, torch.randperm(4)]"),
    "new layer": ("", "x = nn.Linear(4, 4)(x)"),
    # Modes and gradients.
    "no grad": ("self.layer{n} = nn.Linear(4, 4)", "with torch.no_grad():\n    y = self.layer{n}(x)\nx = x + y"),
    "enabled": (
        "self.layer{n} = nn.Linear(4, 4)",
        "with torch.no_grad():\n    with torch.enable_grad():\n        x = self.layer{n}(x)",
    ),
    "inference": (
        "self.layer{n} = nn.Linear(4, 4)",
        "with torch.inference_mode():\n    y = self.layer{n}(x.detach())\nx = x + y.clone()",
    ),
    "autocast": (
        "self.layer{n} = nn.Linear(4, 4)",
        "with torch.autocast('cpu', dtype=torch.bfloat16):\n    y = self.layer{n}(x)\nx = x + y.float()",
    ),
    "asked": ("", "x = x * 2 if x.requires_grad else x + 1"),
    "history": ("", "x = x * 2 if x.grad_fn is not None else x + 1"),
    "leaf": ("", "x = x * 2 if x.is_leaf else x + 1"),
    "derived": ("", "y = x.detach().requires_grad_()\n(z,) = torch.autograd.grad((y * y).sum(), y)\nx = x + z"),
    "functional grad": ("", "x = x + torch.func.grad(lambda v: (v * v).sum())(x.detach())"),
    "vmap": ("self.layer{n} = nn.Linear(4, 4)", "x = torch.vmap(lambda v: self.layer{n}(v) * torch.arange(4.0))(x)"),
    "jacobian": ("", "x = x + torch.func.vmap(torch.func.jacrev(lambda v: v.sin()))(x.detach()).sum(-1)"),
    # What data tell.
    "where": ("", "rows, columns = torch.where(x > 0)\nx = x + x[rows, columns].sum()"),
    "selected": ("", "x = x + x[x > -100].view(2, 4)"),
    "nonzero": ("", "found = (x == x).nonzero()\nassert found.shape[0] == 8\nx = x + found.shape[0]"),
    "item": ("", "x = x * x.detach().sum().item()"),
    "branch": ("", "if x.sum() > 0:\n    x = x + 1"),
    "nested": ("", "y = torch.nested.nested_tensor([x[0], x[1, :2]]).to_padded_tensor(0.0)\nx = x + y"),
    # What goes on in iterators, objects that are no modules, functions, and generators of numbers.
    "cycle": ("self.scales{n} = itertools.cycle([1.0, 2.0])", "x = x * next(self.scales{n})"),
    "count": ("self.number{n} = itertools.count()", "x = x + next(self.number{n})"),
    "iterator": ("self.left{n} = iter(range(9))", "x = x + next(self.left{n}, 0)"),
    "generator of numbers": ("self.left{n} = (i * 2.0 for i in range(9))", "x = x + next(self.left{n})"),
    "iterator in a list": ("self.left{n} = [iter([3.0, 2.0, 1.0])]", "x = x + next(self.left{n}[0], 0.0)"),
    "global iterator": ("", "x = x + next(NUMBERS)"),
    "idle iterator": ("self.left{n} = iter(range(9))", "x = x + 1"),
    "closed over": ("self.counted{n} = counter()", "x = x * self.counted{n}()"),
    "default list": ("", "x = x * grown()"),
    "function's attribute": ("", "tally.calls += 1\nx = x * tally.calls"),
    "counter of items": ("self.seen{n} = collections.Counter()", "self.seen{n}['x'] += 1\nx = x * self.seen{n}['x']"),
    "table of a class": (
        "self.seen{n} = Bag()",
        "self.seen{n}['x'] = self.seen{n}.get('x', 0) + 1\nx = x * self.seen{n}['x']",
    ),
    "list of a class": ("self.seen{n} = Pile()", "self.seen{n}.append(1)\nx = x * len(self.seen{n})"),
    "slots that go on": ("self.box{n} = Box()", "self.box{n}.value += 1\nx = x * self.box{n}.value"),
    "namespace": ("self.box{n} = types.SimpleNamespace(k=0)", "self.box{n}.k += 1\nx = x * self.box{n}.k"),
    "array": ("self.sums{n} = np.zeros(2)", "self.sums{n} += 1\nx = x * float(self.sums{n}[0])"),
    "own random": ("self.random{n} = random.Random(0)", "x = x * self.random{n}.random()"),
    "own numpy": ("self.random{n} = np.random.default_rng(0)", "x = x * float(self.random{n}.random())"),
    "own numpy state": ("self.random{n} = np.random.RandomState(0)", "x = x * float(self.random{n}.rand())"),
    "context": ("", "CONTEXT.set(CONTEXT.get() + 1)\nx = x * CONTEXT.get()"),
    "attribute of a part": (
        "self.part{n} = nn.Linear(4, 4)",
        "self.part{n}.calls = getattr(self.part{n}, 'calls', 0) + 1\nx = self.part{n}(x) * self.part{n}.calls",
    ),
    "cached property": ("", "x = x * self.twice"),
    "late method": ("self.part{n} = nn.Linear(4, 4)", "x = self.part{n}(x)\nself.part{n}.forward = lambda v: v * 2"),
    "weak": (
        "self.seen{n} = weakref.WeakKeyDictionary()",
        "self.seen{n}[self] = self.seen{n}.get(self, 0) + 1\nx = x * self.seen{n}[self]",
    ),
    # State that is set only behind what stops a capture.
    "set behind": (
        "self.layer{n} = nn.Linear(4, 4)\nself.late{n} = False",
        "x = self.layer{n}(x * 2 if self.late{n} else x)\nx = x + 1 if x.sum() > 0 else x - 1\nself.late{n} = True",
    ),
    "set behind in a part": (
        "self.part{n} = Scaled()",
        "x = self.part{n}(x)\nx = x + 1 if x.sum() > 0 else x - 1\nself.part{n}.scale += 1.0",
    ),
    "set behind elsewhere": (
        "self.part{n} = Scaled()",
        "x = self.part{n}(x)\nx = x + 1 if x.sum() > 0 else x - 1\nTABLE['scale'] = TABLE.get('scale', 1.0) + 1",
    ),
    "weights set behind": (
        "self.part{n} = Scaled()",
        "x = self.part{n}(x)\nx = x + 1 if x.sum() > 0 else x - 1\nself.part{n}.layer.weight.data.mul_(0.5)",
    ),
    "new layer behind": (
        "self.part{n} = Scaled()",
        "x = self.part{n}(x)\nx = x + 1 if x.sum() > 0 else x - 1\nself.part{n}.layer = nn.Identity()",
    ),
    "set behind what draws": (
        "self.layer{n}, self.dropout{n} = nn.Linear(4, 4), nn.Dropout(0.5)\nself.late{n} = False",
        (
            "x = self.dropout{n}(self.layer{n}(x * 2 if self.late{n} else x))\n"
            "x = x + 1 if x.sum() > 0 else x - 1\nself.late{n} = True"
        ),
    ),
    "set behind what counts": (
        "self.norm{n} = nn.BatchNorm1d(4)\nself.late{n} = False",
        "x = self.norm{n}(x * 2 if self.late{n} else x)\nx = x + 1 if x.sum() > 0 else x - 1\nself.late{n} = True",
    ),
    "hook before": (
        "self.part{n} = Scaled()\nself.part{n}.register_forward_hook(lambda m, i, o: o * 2)",
        "x = self.part{n}(x)\nx = x + 1 if x.sum() > 0 else x - 1",
    ),
    "norm changed before": (
        "self.norm{n} = nn.BatchNorm1d(4)",
        "x = self.norm{n}(x)\nx += 1\nx = x + 1 if x.sum() > 0 else x - 1",
    ),
    "norm with hook before": (
        "self.norm{n} = nn.BatchNorm1d(4)\nself.norm{n}.register_forward_hook(lambda m, i, o: o * 2)",
        "x = self.norm{n}(x)\nx = x + 1 if x.sum() > 0 else x - 1",
    ),
    "spectral norm before": (
        "self.layer{n} = nn.utils.spectral_norm(nn.Linear(4, 4))",
        "x = self.layer{n}(x)\nx = x + 1 if x.sum() > 0 else x - 1",
    ),
    "dropout changed before": (
        "self.dropout{n} = nn.Dropout(0.5)",
        "x = self.dropout{n}(x)\nx += 1\nx = x + 1 if x.sum() > 0 else x - 1",
    ),
    "kept behind": (
        "self.part{n} = Scaled()\nself.last{n} = 0.0",
        "x = self.part{n}(x + self.last{n})\nx = x + 1 if x.sum() > 0 else x - 1\nself.last{n} = x.detach()",
    ),
}

STATE_HELPERS = """
class Record:
    shared = torch.zeros(())
    def __init__(self):
        self.value = torch.zeros(2, 4)

class Bag(dict):
    pass

class Pile(list):
    pass

class Box:
    __slots__ = ("value",)
    def __init__(self):
        self.value = 0

class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.scale = 1.0
    def forward(self, x):
        return self.layer(x) * self.scale * TABLE.get("scale", 1.0)

TABLE = {}
NUMBERS = iter([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0])
CONTEXT = contextvars.ContextVar("CONTEXT", default=0)

def counter():
    calls = 0
    def count():
        nonlocal calls
        calls += 1
        return calls
    return count

def grown(seen=[]):
    seen.append(1)
    return len(seen)

def tally():
    pass

tally.calls = 0

@functools.lru_cache
def remembered(size):
    return torch.rand(size)
"""
