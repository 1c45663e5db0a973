"""Writes small model files at random: the same seed, the same file.

A program is text, so that what fails can be read, kept and run alone. Every tensor in it is four by four, so that any
expression fits anywhere; a part of the programs asks something of a symbolic value that it cannot answer, so that
errors are compared as well. What a program may consist of stands in tables of templates (`program_tables`), whose
fields are filled at random:

    {t} an expression for a tensor    {v} a variable that holds one    {n} a small number    {s} a size
    {x} a variable that is bound anew

This module deliberately knows neither engine.
"""

import random
import re
from dataclasses import dataclass

from tests.parity import program_tables as tables

_FIELD = re.compile(r"\{([a-z])\}")
_DEPTH = 5
"""How deeply expressions are nested."""


@dataclass(frozen=True)
class Program:
    """A model file.

    Attributes:
        seed: What it was made of.
        text: The file. It defines `make()`, `INPUTS`, `concrete(engine)`, `tracer(engine)` and `SETTINGS`.
    """

    seed: int
    text: str


def write(seed: int) -> Program:
    """A program; the same for the same seed."""
    return Program(seed, _Writer(random.Random(seed)).program())


class _Writer:
    """Fills templates, and knows which variables there are."""

    def __init__(self, source: random.Random) -> None:
        self.random = source
        self.tensors: list[str] = []
        self.attributes: list[tuple[str, tables.Attribute]] = []
        self.is_module = source.random() < 0.85

    def program(self) -> str:
        if self.is_module:
            names = self.random.sample(tables.ATTRIBUTE_NAMES, self.random.randint(2, 7))
            self.attributes = [(name, self.random.choice(tables.ATTRIBUTES)) for name in names]
        signature = self.random.choice(tables.SIGNATURES)
        self.tensors = list(signature.tensors)
        body = self.body(signature)
        returns = self.random.choice(tables.RETURN_ANNOTATIONS)
        head = "self, " if self.is_module else ""
        forward = [f"def forward({head}{signature.parameters}){returns}:", *(f"    {line}" for line in body)]
        made = ["Net()"] if self.is_module else ["forward"]
        kind, settings = self.random.choice(tables.TRACERS), self.random.choice(tables.SETTINGS)
        concrete = signature.concrete if self.random.random() < 0.9 else "None"
        return "\n".join(
            [
                tables.PRELUDE,
                *(self.class_of(forward) if self.is_module else forward),
                "",
                "def make():",
                "    torch.manual_seed(0)",
                f"    return {made[0]}",
                "",
                f"INPUTS = {signature.inputs}",
                f"SETTINGS = {settings}",
                "",
                "def concrete(engine):",
                f"    return {concrete}",
                "",
                "def tracer(engine):",
                *(f"    {line}" for line in kind),
                "",
            ]
        )

    def class_of(self, forward: list[str]) -> list[str]:
        lines = ["class Net(nn.Module):", "    def __init__(self):", "        super().__init__()"]
        lines += [f"        {self.fill(self.named(attribute.made, name))}" for name, attribute in self.attributes]
        lines += ["        self.flag = True", ""]
        if self.random.random() < 0.2:
            lines += ["    @torch.no_grad()"]
        lines += [f"    {line}" for line in forward]
        return [*lines, "", *(f"    {line}" for line in tables.METHODS)]

    def named(self, template: str, name: str) -> str:
        return template.replace("{a}", name)

    def body(self, signature: tables.Signature) -> list[str]:
        lines = [line for template in signature.opening for line in self.fill(template).split("\n")]
        refuses = self.random.random() < 0.15
        count = self.random.randint(2, 8)
        when = self.random.randrange(count)
        for index in range(count):
            lines += self.statement()
            if refuses and index == when:
                lines += self.fill(self.random.choice(tables.REFUSED)).split("\n")
        return [*lines, f"return {self.fill(self.random.choice(tables.RETURNED))}"]

    def statement(self) -> list[str]:
        kind = self.random.random()
        if kind < 0.6:
            value, name = self.tensor(0), self.random.choice(tables.VARIABLES)
            self.bind(name)
            return [f"{name} = {value}"]
        own = [self.named(line, name) for name, attribute in self.attributes for line in attribute.statements]
        templates = (*tables.STATEMENTS, *tables.OF_SELF, *own) if self.is_module else tables.STATEMENTS
        return self.fill(self.random.choice(templates)).split("\n")

    def bind(self, name: str) -> None:
        if name not in self.tensors:
            self.tensors.append(name)

    def tensor(self, depth: int) -> str:
        if depth >= _DEPTH or self.random.random() < 0.2:
            return self.random.choice(self.tensors)
        if self.attributes and self.random.random() < 0.35:
            name, attribute = self.random.choice(self.attributes)
            return self.fill(self.named(self.random.choice(attribute.uses), name), depth + 1)
        return self.fill(self.random.choice(tables.TENSORS), depth + 1)

    def fill(self, template: str, depth: int = 0) -> str:
        """A template with its fields filled; a name that it binds can be read only in what follows."""
        bound: list[str] = []

        def field(match: re.Match[str]) -> str:
            match match[1]:
                case "t":
                    return self.tensor(depth + 1)
                case "v":
                    return self.random.choice(self.tensors)
                case "n":
                    return self.random.choice(tables.NUMBERS)
                case "s":
                    return self.fill(self.random.choice(tables.SIZES), depth + 1)
                case "x":
                    bound.append(self.random.choice(tables.VARIABLES))
                    return bound[-1]
                case other:
                    return "{" + other + "}"

        text = _FIELD.sub(field, template)
        for name in bound:
            self.bind(name)
        return text
