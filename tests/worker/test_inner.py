"""Classes that functions define are built without running what else the functions do."""

import re
import textwrap

import pytest

from tests.worker.harness import all_problems, of

HEAD = "import torch\nfrom torch import nn\n"

NET = """
class Net(nn.Module):
    def __init__(self, width%s):
        super().__init__()
        self.fc = nn.Linear(width, 3)

    def forward(self, x):
        return self.fc(x)
"""


def written(text: str) -> str:
    """A text in which `NET` and a default stand for the class, as deep as they stand."""

    def net(match: re.Match[str]) -> str:
        return textwrap.indent(NET % match[2].replace(" ", ""), match[1])

    return HEAD + re.sub(r"^( *)NET(.*)$", net, textwrap.dedent(text), flags=re.MULTILINE)


FORMS = {
    "a factory that returns a class": (
        "make.<locals>.Net",
        8,
        """
        def make(width):
            NET = width
            return Net
        Net8 = make(8)
        """,
    ),
    "a factory that nothing calls": (
        "make.<locals>.Net",
        None,
        """
        def make(hidden_dim):
            size = hidden_dim // 2
            NET = size
            return Net()
        """,
    ),
    "a factory that calls": (
        "make.<locals>.Net",
        None,
        """
        def make(*args, width=7, **more):
            NET
            return Net(width, *args)
        """,
    ),
    "a program": (
        "main.<locals>.Net",
        5,
        """
        def main():
            NET
            net = Net(5)
            for batch in loader():
                net(batch).backward()
        main()
        """,
    ),
    "a test": (
        "Case.test_it.<locals>.Net",
        6,
        """
        class Case:
            def test_it(self):
                sizes = self.sizes()
                NET = 6
                Net()
        """,
    ),
    "a function in a function": (
        "outer.<locals>.inner.<locals>.Net",
        9,
        """
        def outer(a=9):
            def inner(b):
                NET = a
                return Net
            return inner
        """,
    ),
    "a class that another one in the function needs": (
        "make.<locals>.More",
        4,
        """
        def make():
            NET = 4
            class More(Net):
                def forward(self, x):
                    return super().forward(x)
        """,
    ),
    "a constructor of a model that puts parts in it": (
        "Outer.__init__.<locals>.Net",
        4,
        """
        class Outer(nn.Module):
            def __init__(self):
                super().__init__()
                self.scale = nn.Linear(2, 2)
                width = self.scale.out_features * 2
                NET = width
                self.net = self.fetched(Net)
        """,
    ),
    "a branch": (
        "make.<locals>.Net",
        4,
        """
        def make(kind="a"):
            if kind == "a":
                NET = 4
                return Net
            return None
        """,
    ),
    "a branch that the arguments do not lead to": (
        "Outer.__init__.<locals>.Net",
        4,
        """
        class Outer(nn.Module):
            def __init__(self, mode):
                super().__init__()
                kind = mode.lower()
                if kind == "wide":
                    NET = 4
                    self.net = Net()
                elif kind == "narrow":
                    self.net = nn.Linear(2, 2)
                elif kind == "none":
                    self.net = nn.Identity()
                else:
                    raise ValueError(mode)
        """,
    ),
    "a class in a class in a function": (
        "make.<locals>.Outer.Net",
        4,
        """
        def make():
            class Outer(nn.Module):
                NET = 4
                def forward(self, x):
                    return x
        """,
    ),
    "the main block": (
        "Net",
        4,
        """
        if __name__ == "__main__":
            size = 4
            NET = size
            Net()(torch.ones(1, 4)).backward()
        """,
    ),
    "an exception": (
        "Net",
        4,
        """
        try:
            import nobody
        except ImportError:
            NET = 4
        """,
    ),
    "a generator": (
        "nets.<locals>.Net",
        4,
        """
        def nets(n=4):
            NET = n
            yield Net()
        """,
    ),
    "a coroutine": (
        "main.<locals>.Net",
        4,
        """
        async def main():
            NET = 4
            await serve(Net())
        """,
    ),
    "a decorated factory": (
        "make.<locals>.Net",
        3,
        """
        import functools
        @functools.lru_cache
        def make(width: "int", *, names: "list[nobody]"):
            NET = width
            return Net
        three = make(3, names=[])
        """,
    ),
    "a method that is a factory": (
        "Maker.make.<locals>.Net",
        4,
        """
        class Maker:
            width = 4
            @classmethod
            def make(cls):
                NET = cls.width
                return Net
        """,
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_class_is_built_wherever_it_is_defined(worker, model, form):
    name, width, text = FORMS[form]
    report = worker.trace(model(written(text)))
    net = of(report, name)
    assert net.status == "complete"
    assert "fc" in net.code
    assert width is None or net.facts.parameters == 3 * width + 3
    assert all_problems(report) == []


def test_its_problems_are_at_its_own_lines(worker, model):
    text = HEAD + textwrap.dedent("""
        def make():
            class Net(nn.Module):
                def forward(self, x):
                    if x.sum() > 0:
                        return x
                    return -x
            return Net
        """)
    (problem,) = all_problems(worker.trace(model(text)))
    assert problem.code == "FX001"
    assert problem.location.span.line == text.split("\n").index("            if x.sum() > 0:") + 1


def test_a_function_that_cannot_be_called_is_told_quietly(worker, model):
    text = """
    def make(plan):
        size = {}[plan.best().size]
        NET = size
    """
    (problem,) = all_problems(worker.trace(model(written(text))))
    assert (problem.code, problem.severity) == ("FX103", "information")
    assert "`# fx: Net(…)`" in problem.hint


def test_a_class_is_traced_inside_another_one_of_its_function(worker, model):
    text = """
    def make(dim):
        NET
        class Whole(nn.Module):
            def __init__(self):
                super().__init__()
                self.first, self.second = Net(dim), Net(3)

            def forward(self, x):
                return self.second(self.first(x))
        return Whole
    make(7)
    """
    report = worker.trace(model(written(text)))
    assert of(report, "make.<locals>.Whole").facts.parameters == (7 * 3 + 3) + (3 * 3 + 3)
    part = of(report, "make.<locals>.Net")
    assert (part.status, part.enclosed_by, part.module_path) == ("complete", "make.<locals>.Whole", "first")
