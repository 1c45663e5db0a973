"""What a person is told about a tracing problem: one line that says what is wrong, and what mends it, best first.

Both speak in the user's own expressions. The reasons and remedies are those found in a census of real models; they
never promise more than they can hold, for nothing is tried out here.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from fxengine.errors import (
    DynamicBool,
    DynamicIteration,
    DynamicLength,
    DynamicNumber,
    ForeignCall,
    ForeignModule,
    ItemAssignment,
    Rule,
    UnsupportedArgument,
    said_by_torch_fx,
    text_of,
)
from fxengine.provenance import METADATA_ATTRIBUTES, Kind, Step, operand

_LONGEST_EXPRESSION: Final = 72

_NO_CONTEXT: Final = "does not support the context manager protocol"
"""What Python says of a value that `with` cannot enter."""


@dataclass(frozen=True, slots=True)
class Case:
    """The facts about one problem that headline and hints are made from.

    Attributes:
        rule: The rule that is broken.
        error: The exception.
        expression: The source of the site, on one line.
        value: How the value in question reads in the source, or nothing.
        kind: What the value follows from.
        purpose: What a truth value or the items are wanted for; see `syntax.purpose_of`.
        provenance: The way from an input to the value.
        module_type: The module whose forward ran.
        known: Whether example inputs have answered the question.
        counted: Whether the value is a size that follows from what tensors hold, as that of `x[x > 0]`.
        inside: Whether what is asked is asked in code that the expression calls, and that is none of the user's.
        module: The name of the class of a module that is passed where a value is meant; the provenance has what made
            it, if the function that passes it on did.
        absent: The input that is None by default, and that the code has asked for in order to come to the error.
        kept: What is called that is not this module but its class, as `self.norm`; else nothing.
    """

    rule: type[Rule]
    error: BaseException
    expression: str
    value: str
    kind: Kind
    purpose: str
    provenance: Sequence[Step]
    module_type: type[Any] | None
    known: bool = False
    counted: bool = False
    inside: bool = False
    module: str = ""
    absent: str = ""
    kept: str = ""

    @property
    def variadic(self) -> str:
        """The `*args` or `**kwargs` of the traced function that the value comes from; else nothing."""
        node = self.provenance[0].node if self.provenance else None
        return str(node.target) if node is not None and str(node.target).startswith("*") else ""

    @property
    def flag(self) -> str:
        """The name of an input that decides alone and looks like an option rather than a tensor; else nothing."""
        node = self.provenance[0].node if self.provenance else None
        is_input = node is not None and node.op == "placeholder" and not self.kind
        return str(node.target) if node is not None and is_input else ""

    @property
    def index(self) -> str:
        """The index into a tensor that asks it for its length to see what it is; else nothing."""
        owner, _, rest = self.expression.rpartition("[")
        return rest.removesuffix("]") if owner and rest.endswith("]") else ""

    @property
    def metadata(self) -> str:
        """Which metadata decides: `shapes`, `dtypes` or `devices`."""
        words = {"device": "devices", "is_cuda": "devices", "is_cpu": "devices"}
        words |= {"dtype": "dtypes", "is_complex": "dtypes", "is_floating_point": "dtypes"}
        for step in reversed(self.provenance):
            # Of a step that is more than an attribute, as several that are unpacked, nobody knows which part counts.
            path = step.text.split(".") if re.fullmatch(r"[\w.\[\]()-]+", step.text) else []
            for attribute in reversed(path):
                if attribute in METADATA_ATTRIBUTES:
                    return words.get(attribute, "shapes")
        return "shapes"


def headline(case: Case) -> str:
    """What is wrong, in one line."""
    if case.kept:
        return f"`{case.kept}` is the class `{case.module}` itself, so calling it makes a module and computes nothing"
    if case.inside and case.rule in _INSIDE and not case.variadic:
        return f"`{case.expression}` {_INSIDE[case.rule]}, but {_reason(case)}"
    return _HEADLINES.get(case.rule, _raised)(case)


def hints(case: Case) -> tuple[str, ...]:
    """What mends it, best first."""
    if case.kept:
        return (f"make one in `__init__`: `{case.kept} = {case.module}(…)`",)
    if case.inside and case.rule in _INSIDE and not case.variadic:
        return (*_for_inside(case), *_keep_out(case))
    return tuple(_HINTS.get(case.rule, _for_other)(case))


def on_one_line(text: str) -> str:
    """An expression without line breaks, shortened in the middle if it is long."""
    text = " ".join(text.split())
    if len(text) <= _LONGEST_EXPRESSION:
        return text
    half = (_LONGEST_EXPRESSION - 1) // 2
    return f"{text[:half]}…{text[-half:]}"


def _reason(case: Case) -> str:
    if case.kind == "metadata":
        return f"torch.fx traces without {case.metadata}"
    if case.flag:
        return f"the input `{case.flag}` has no value while tracing"
    if case.counted:
        return "how many there are is only known when data flows"
    return "its value is only known when data flows"


def _dynamic_bool(case: Case) -> str:
    match case.purpose:
        case "loop":
            return f"`{case.expression}` decides whether the loop goes on, but {_reason(case)}"
        case "assert":
            return f"`{case.expression}` is asserted, but {_reason(case)}"
        case "check":
            return f"`{case.expression}` decides whether an assertion holds, but {_reason(case)}"
        case "call" | "membership":
            return f"`{case.expression}` needs the truth value of something symbolic, but {_reason(case)}"
        case "choice":
            return f"`{case.expression}` decides which operand is taken, but {_reason(case)}"
        case _:
            return f"`{case.expression}` decides a branch, but {_reason(case)}"


def _dynamic_length(case: Case) -> str:
    if case.index:
        return (
            f"`{case.expression}` takes items of a tensor that is not in the graph by `{case.index}`, which is symbolic"
        )
    return f"`{case.expression}` asks for a length, but {_reason(case)}"


def _dynamic_iteration(case: Case) -> str:
    if case.variadic:
        return f"`{case.expression}` is unpacked, but `{case.variadic}` is one symbolic value while tracing"
    if case.purpose == "membership":
        return f"`in` searches `{case.expression}`, but how many items it has is not known while tracing"
    return f"`{case.expression}` is iterated, but how many items it has is not known while tracing"


def _dynamic_number(case: Case) -> str:
    value = f"`{case.value}`" if case.value and case.value != case.expression else "what it is given"
    return f"`{case.expression}` needs a number, but {value} is symbolic: {_reason(case)}"


def _item_assignment(case: Case) -> str:
    return f"`{case.expression}` is assigned, but a symbolic value cannot be changed in place"


def _foreign_call(case: Case) -> str:
    if _NO_CONTEXT in text_of(case.error):
        return f"`with {case.expression}` enters a symbolic value, which is no context"
    value = f"the symbolic value `{case.value}`" if case.value else "a symbolic value"
    return f"`{case.expression}` cannot take {value}"


def _foreign_module(case: Case) -> str:
    what = "parameter" if "parameter" in text_of(case.error) else "module"
    return f"`{case.expression}` uses a {what} that is not registered in the model"


def _unsupported_argument(case: Case) -> str:
    if case.module:
        made = case.provenance[0].text if case.provenance else ""
        what = f"the module that `{made}` makes" if made else f"a module, `{case.module}`"
        passes = "the model returns" if case.expression.startswith("return") else f"`{case.expression}` is given"
        return f"{passes} {what}, not what a module makes of a value"
    if case.expression.startswith("return"):
        return f"the model returns something that a graph cannot hold: {_first_line(case.error)}"
    return f"`{case.expression}` passes something that a graph cannot hold: {_first_line(case.error)}"


def _raised(case: Case) -> str:
    if _hides_parameters(case.error):
        return "`forward` is wrapped by a decorator that hides its parameters, so it cannot be called symbolically"
    message = _first_line(case.error)
    name = type(case.error).__name__
    return f"{name}: {message}" if message else name


def _first_line(error: BaseException) -> str:
    return next(iter(said_by_torch_fx(error).strip().splitlines()), "")


def _hides_parameters(error: BaseException) -> bool:
    return isinstance(error, ValueError) and "co_varnames is too small" in text_of(error)


def _for_other(case: Case) -> list[str]:
    if _hides_parameters(case.error):
        return ["trace a small module that calls this one with named inputs, and treat this one as a leaf module"]
    if case.absent:
        given = f"`{case.absent}` is None unless it is given, and while tracing it is a symbolic value"
        return [f'{given}: leave it out with `concrete_args={{"{case.absent}": None}}`']
    return _for_checks_of_distributions(case)


def _for_checks_of_distributions(case: Case) -> list[str]:
    if "torch/distributions/" in _file_of(case.error):
        return ["`validate_args=False` leaves the checks of the distribution out, which ask for values"]
    return []


def _keep_out(case: Case) -> list[str]:
    """The two remedies that always work: a leaf function, and a leaf module."""
    result = ["move the lines into a top-level function and mark it with `@torch.fx.wrap`"]
    if case.module_type is not None:
        result.append(f"treat `{case.module_type.__name__}` as a leaf module")
    return result


def _wrapped(name: str) -> str:
    return f"`torch.fx.wrap('{name}')` at the top level of the module that makes this call"


def _fix_the_input(name: str) -> str:
    return f'fix it while tracing with `concrete_args={{"{name}": …}}`, or make it an attribute set in `__init__`'


def _for_bool(case: Case) -> list[str]:
    if case.purpose == "assert" and not case.flag:
        return [f"`torch._assert({case.expression}, message)` is recorded in the graph", *_keep_out(case)]
    if case.kind == "metadata":
        example = f"give example inputs: with known {case.metadata} the condition is decided"
        once = "if it is so for all inputs, decide it in `__init__` and keep the answer as an attribute"
        return [*([] if case.known else [example]), once, *_keep_out(case)]
    if case.flag:
        return [_fix_the_input(case.flag), *_keep_out(case)]
    if case.counted:
        return ["compute on all of them and keep the sizes: `torch.where(mask, value, 0)`", *_keep_out(case)]
    if case.purpose == "call" and case.expression.startswith(("sorted(", "list.sort(")):
        return ["`torch.sort`, `torch.argsort` and `torch.topk` order tensors in the graph", *_keep_out(case)]
    if case.purpose in {"call", "membership"}:
        return ["`torch.maximum`, `torch.minimum` or `torch.where` work on tensors", *_keep_out(case)]
    if case.purpose == "guard":
        return [f"`torch._assert(torch.logical_not({case.expression}), message)` is in the graph", *_keep_out(case)]
    return [f"`torch.where({case.expression}, a, b)` computes both and picks", *_keep_out(case)]


def _for_inside(case: Case) -> list[str]:
    """What helps where the question is asked by somebody else: to answer it, or to have it not asked."""
    if case.flag:
        return [_fix_the_input(case.flag)]
    return _for_checks_of_distributions(case)


def _file_of(error: BaseException) -> str:
    """The file in which an exception was raised by other code than ours, as far as its traceback tells."""
    traceback, files = error.__traceback__, [""]
    while traceback is not None:
        files.append(traceback.tb_frame.f_code.co_filename.replace("\\", "/"))
        traceback = traceback.tb_next
    return next((each for each in reversed(files) if "/fxengine/" not in each), "")


def _for_length(case: Case) -> list[str]:
    if case.index:
        owner = case.expression.rpartition("[")[0]
        return [f"`torch.index_select({owner}, 0, {case.index})` is recorded in the graph", *_keep_out(case)]
    if case.expression.startswith(_TENSORS):
        # torch asks each item for its own, in case it is a list, too.
        return ["`torch.stack([…])` makes one tensor of several that are in the graph", *_keep_out(case)]
    inner = re.fullmatch(r"len\((\w+(?:\.\w+)*(?:\(\))?)\)", case.expression)
    value = inner[1] if inner is not None else operand(case.value) or "x"
    measured = next((value.removesuffix(each) for each in (".shape", ".size()") if value.endswith(each)), "")
    size = f"{measured}.ndim" if measured else f"{value}.shape[0]"
    return [
        f"`{size}` is recorded in the graph",
        _wrapped("len"),
        *_keep_out(case),
    ]


def _for_iteration(case: Case) -> list[str]:
    if case.variadic:
        return [f"give `forward` fixed parameters in place of `{case.variadic}`", *_keep_out(case)]
    expression = operand(case.expression)
    if case.kind == "metadata":
        if expression.endswith((".items()", ".keys()", ".values()")):
            return ["go through keys that are known in `__init__`, and look each of them up", *_keep_out(case)]
        sizes = expression.endswith((".shape", ".size()", "]"))
        reshaped = "`x.flatten(…)` and `x.unflatten(…)` reshape without all sizes"
        whole = "compute on the whole tensor, not item by item: with a batch dimension, a mask, or `torch.vmap`"
        return [
            f"name the items: `{expression}[0], {expression}[1], …`",
            reshaped if sizes else whole,
            *_keep_out(case),
        ]
    if case.purpose == "membership":
        return [*([_fix_the_input(case.flag)] if case.flag else []), *_keep_out(case)]
    items = f'say how many it has while tracing: `concrete_args={{"{case.flag}": [PH, PH, …]}}`'
    return [
        f"loop over a number known in `__init__` and index: `{expression}[i]`",
        *([items] if case.flag else []),
        "`torch.unbind`, `torch.split` and `torch.chunk` give items that can be unpacked by name",
        *_keep_out(case),
    ]


def _for_number(case: Case) -> list[str]:
    result = ["keep the computation in torch: `//` in place of `int(a / b)`, `torch.arange` in place of `range`"]
    if case.flag and case.expression.startswith("range("):
        result = [_fix_the_input(case.flag)]
    if case.kind == "data-dependent" and not case.expression.startswith(("range(", "torch.")):
        value = case.value or case.expression
        result = [f"leave it a tensor here, and make a number or text of it where the result is used: `{value}`"]
    if "[" in case.expression and "indices must" in str(case.error):
        result = ["index a buffer that is in the graph, or use `torch.narrow(…)`, which takes symbolic sizes"]
    if case.kind == "metadata" and not case.known:
        result.append(f"give example inputs: with known {case.metadata} this is a number")
    return [*result, *_keep_out(case)]


def _for_item(case: Case) -> list[str]:
    changed, _, index = case.expression.partition("[")
    value = changed if changed.isidentifier() and index else "x"
    if (":" in index or "..." in index) and index.endswith("]"):
        parts = [each.strip() for each in index[:-1].split(",")]
        method = (
            "slice_scatter" if any(each not in {":", "..."} and ":" in each for each in parts) else "select_scatter"
        )
        return [
            f"`{value} = {value}.{method}(…)`, or `torch.cat([…])` of what stays and what is new",
            *_keep_out(case),
        ]
    if index[:1] in {'"', "'"} and index.endswith("]"):
        return [
            f"return it in a dictionary of its own, `{{{index[:-1]}: …}}`, for the caller to put into `{value}`",
            *_keep_out(case),
        ]
    return [
        f"`{value} = torch.where(mask, value, {value})` for a mask",
        f"`{value} = {value}.index_put((indices,), value)` for indices",
        *_keep_out(case),
    ]


def _for_call(case: Case) -> list[str]:
    value = operand(case.provenance[0].text) if case.provenance else "x"
    name = case.expression.partition("(")[0].removeprefix("torch.").removeprefix("autograd.")
    if name == "Variable":
        return ["leave `Variable` out: a tensor is one since torch 0.4", *_keep_out(case)]
    if name in {"zeros", "ones", "empty", "full", "tensor"}:
        return [f"`{value}.new_{name}(…)` is recorded in the graph, with the device of `{value}`", *_keep_out(case)]
    called = case.expression.partition("(")[0]
    if called.isidentifier() and called != case.expression:
        return [_wrapped(called), *_keep_out(case)]
    return _keep_out(case)


def _for_module(_case: Case) -> list[str]:
    return [
        "create it in `__init__` as an attribute; several of them in an `nn.ModuleList` or `nn.ModuleDict`",
        "call the function of `torch.nn.functional` that does the same",
    ]


def _for_argument(case: Case) -> list[str]:
    if case.module and case.provenance:
        return [
            f"make the `{case.module}` in `__init__`, and call it here",
            "call the function of `torch.nn.functional` that does the same",
        ]
    if case.module:
        return [f"call the `{case.module}`, and pass what it returns"]
    number = re.search(r"<class 'numpy\.(u?int|float|bool)", text_of(case.error))
    if number is not None:
        kind = number[1].removeprefix("u")
        return [f"make a number of Python's of it where it comes from, `{kind}(…)`", *_keep_out(case)]
    if "'torch.tensortype'" in text_of(case.error):
        return ["`.type(torch.float32)` names the data type of a `torch.FloatTensor`", *_keep_out(case)]
    return ["pass its parts, or a tuple, dict or named tuple of them", *_keep_out(case)]


_TENSORS: Final = ("torch.tensor(", "torch.as_tensor(", "torch.Tensor(", "torch.FloatTensor(", "torch.LongTensor(")

_INSIDE: Final[dict[type[Rule], str]] = {
    DynamicBool: "asks a symbolic value for its truth inside",
    DynamicLength: "asks a symbolic value for its length inside",
    DynamicIteration: "iterates over a symbolic value inside",
}
"""What a call does in code that is none of the user's."""

_HEADLINES: Final[dict[type[Rule], Callable[[Case], str]]] = {
    DynamicBool: _dynamic_bool,
    DynamicLength: _dynamic_length,
    DynamicIteration: _dynamic_iteration,
    DynamicNumber: _dynamic_number,
    ItemAssignment: _item_assignment,
    ForeignCall: _foreign_call,
    ForeignModule: _foreign_module,
    UnsupportedArgument: _unsupported_argument,
}

_HINTS: Final[dict[type[Rule], Callable[[Case], list[str]]]] = {
    DynamicBool: _for_bool,
    DynamicLength: _for_length,
    DynamicIteration: _for_iteration,
    DynamicNumber: _for_number,
    ItemAssignment: _for_item,
    ForeignCall: _for_call,
    ForeignModule: _for_module,
    UnsupportedArgument: _for_argument,
}
