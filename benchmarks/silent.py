"""How often the rules for silent errors sound an alarm over models of the libraries, and what looking for them costs.

Prints, for each code, the number of models with an alarm, the number of alarms, and in how many of the models it is
true by a rule that shares nothing with the finders; then the alarms themselves, for the reader to judge. The rules:

    FX301   traced in the other mode, the model gives other code, or none; undecided where neither mode traces
    FX307   the trace itself has changed the model's buffers; undecided where the model is on the meta device
    others  not judged

Models are diagnosed as somebody would who uses the library: every file counts. With `--mode train` they are traced as
they are built, else for evaluation.

    python benchmarks/silent.py [--library NAME]... [--mode eval|train] [--limit N] [--examples N] [--cost]
"""

import argparse
import collections
import statistics
import sys
import warnings
from collections.abc import Callable
from typing import Any, Final
from unittest import mock

import _models
import torch
from _timing import best_of
from torch import nn

from fxengine import Tracer, diagnose
from fxengine.diagnosis import TracingProblem
from fxengine.errors import SILENT_RULES
from fxengine.exploration import Budget

Judged = collections.Counter[tuple[str, bool | None]]
Alarms = dict[str, list[tuple[str, TracingProblem]]]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--library", action="append", help="only its models (default: torchvision and timm)")
    parser.add_argument("--mode", choices=("eval", "train"), default="eval")
    parser.add_argument("--limit", type=int, help="so many models at most, evenly spread")
    parser.add_argument("--examples", type=int, default=20, help="so many places of each code")
    parser.add_argument("--cost", action="store_true", help="what the finders add, as a ratio to one trace")
    options = parser.parse_args(arguments)
    libraries = options.library or ["torchvision", "timm"]
    wanted = [each for each in _models.corpus_models.models() if each[0].partition(":")[0] in libraries]
    if options.limit is not None and options.limit < len(wanted):
        wanted = [wanted[index * len(wanted) // options.limit] for index in range(options.limit)]
    alarms: Alarms = collections.defaultdict(list)
    costs: list[float] = []
    judged: Judged = collections.Counter()
    diagnosed = 0
    for name, build in wanted:
        model = _built(name, build, options.mode)
        if model is None:
            continue
        diagnosis = diagnose(model, budget=Budget(seconds=60))
        diagnosed += 1
        for problem in diagnosis.silent:
            alarms[problem.code].append((name, problem))
        judged.update(
            (code, _RULES[code](model)) for code in {each.code for each in diagnosis.silent} if code in _RULES
        )
        if options.cost and not diagnosis.problems:
            costs.append(_cost(model))
    _print_counts(alarms, diagnosed, judged)
    if costs:
        print(f"cost: median {statistics.median(costs):.2f} of one trace, worst {max(costs):.2f}")
    for rule in SILENT_RULES:
        _print_examples(alarms[rule.code], options.examples)
    return 0


def _built(name: str, build: _models.Build, mode: str) -> nn.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = build()
    except Exception as error:  # noqa: BLE001 - what a library raises for want of something is not the matter here.
        print(f"{name}: not built ({type(error).__name__}: {error})", file=sys.stderr)
        return None
    return model.train(mode == "train")


def _follows_the_mode(model: nn.Module) -> bool | None:
    """Whether the code of the graph is another one in the other mode; None if there is a graph in neither."""
    mode = model.training
    codes = [_code(model.train(each)) for each in (mode, not mode)]
    model.train(mode)
    return None if codes == ["", ""] else codes[0] != codes[1]


def _code(model: nn.Module) -> str:
    """The code of a model's graph, "" if it does not trace."""
    try:
        return Tracer().trace(model).python_code("self").src
    except Exception:  # noqa: BLE001 - whatever stops the trace of a model in one mode is an answer.
        return ""


def _is_changed_by_the_trace(model: nn.Module) -> bool | None:
    """Whether tracing leaves other numbers in a buffer than it found; None if the buffers have no numbers."""
    before = {name: buffer.clone() for name, buffer in model.named_buffers() if not buffer.is_meta}
    if not before:
        return None
    _code(model)
    return any(not torch.equal(buffer, before[name]) for name, buffer in model.named_buffers() if name in before)


_RULES: Final[dict[str, Callable[[nn.Module], bool | None]]] = {
    "FX301": _follows_the_mode,
    "FX307": _is_changed_by_the_trace,
}


def _cost(model: nn.Module) -> float:
    """What a diagnosis takes beyond the same one without the finders, as a part of a trace."""
    without = ("fxengine.exploration.runs.find_silent", lambda _: ())

    def bare() -> None:
        with mock.patch(*without):
            diagnose(model)

    trace, diagnosis, without_finders = best_of(5, lambda: Tracer().trace(model), lambda: diagnose(model), bare)
    return (diagnosis - without_finders) / trace


def _print_counts(alarms: Alarms, diagnosed: int, judged: Judged) -> None:
    print(f"{diagnosed} models")
    for rule in SILENT_RULES:
        found = alarms[rule.code]
        models = {name for name, _ in found}
        places = {problem.site for _, problem in found}
        words = {True: "true", False: "not confirmed", None: "undecided"}
        verdicts = [f", {word} in {number}" for key, word in words.items() if (number := judged[rule.code, key])]
        print(
            f"{rule.code}  {len(found):4} alarms at {len(places):3} places in {len(models):3} models"
            f" ({len(models) / max(diagnosed, 1):.0%}"
            f"{''.join(verdicts)})  {rule.title}"
        )


def _print_examples(found: list[tuple[str, TracingProblem]], most: int) -> None:
    """One alarm for each place, with the models that have it."""
    by_place: dict[Any, list[tuple[str, TracingProblem]]] = collections.defaultdict(list)
    for name, problem in found:
        by_place[problem.site].append((name, problem))
    for at_place in list(by_place.values())[:most]:
        name, problem = at_place[0]
        site = problem.site
        place = f"{site.path}:{site.line}:{site.column + 1}" if site is not None else "?"
        others = f" and {len(at_place) - 1} more" if len(at_place) > 1 else ""
        print(f"\n{problem.code} {problem.severity or problem.rule.severity}: {problem.headline}")
        print(f"  {place}  {name}{others}, {len(problem.instances)} instances")
        for step in problem.provenance:
            print(f"    · {step.text}")


if __name__ == "__main__":
    torch.manual_seed(0)
    sys.exit(main())
