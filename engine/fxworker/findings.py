"""What is told of a traced model: the problems of its trace, and those of running it on inputs.

What only repeats that a name, a package or a base is missing is not told again.
"""

import inspect
from dataclasses import dataclass, replace
from typing import Any

from torch import nn

from fxengine.capturing import Capture
from fxengine.errors import RaisedWhileTracing, kept_in
from fxengine.exploration import Diagnosis
from fxworker.absent import lacks_base, speaks_of_stand_in
from fxworker.building import Built, hides_stand_in, misbuilt
from fxworker.doubts import doubted, is_answer, is_of_stand_in, is_used
from fxworker.feeding import SAID, Fed
from fxworker.finder import Unknown
from fxworker.folding import merged
from fxworker.former import Former
from fxworker.loading import Loaded
from fxworker.reporting import Reporter
from fxworker.wire import Guard, Inputs, Problem, TargetReport, TraceTarget


@dataclass(frozen=True, slots=True)
class Findings:
    """Makes the problems of the models of a file."""

    reporter: Reporter
    loaded: Loaded

    def of_trace(self, target: TraceTarget, built: Built, diagnosis: Diagnosis, fed: str) -> tuple[Problem, ...]:
        """Return the problems of a trace; `fed` are the inputs that were guessed for it, "" for none."""
        found: list[Problem] = []
        guesses = self.loaded.guesses(target.qualname)
        for each in (*diagnosis.problems, *diagnosis.silent):
            if self.is_told(each.exception) or is_answer(each, diagnosis.problems):
                continue
            if is_used(each, built) or is_of_stand_in(each, built) or (fed and hides_stand_in(built, each.exception)):
                continue
            unbuilt = misbuilt(built, each.exception)
            found.append(
                self.reporter.not_built(target, unbuilt)
                if unbuilt is not None
                else doubted(self.reporter.tracing_problem(each, target), each.exception, built, guesses, fed)
            )
        # What is on a class may be made when it is asked for, as that of a `ScriptModule` is, and not for the class.
        forward = inspect.getattr_static(type(built.root), "forward", None)
        if found and isinstance(built.root, nn.Module) and forward is nn.Module.forward:
            return (self.reporter.without_forward(found[0], type(built.root)),)
        if found and isinstance(forward, staticmethod):
            return (self.reporter.of_static(found[0]),)
        return merged(found)

    def of_run(self, target: TraceTarget, built: Built, diagnosis: Diagnosis, fed: Fed) -> tuple[Problem, ...]:
        """Return the problems of running a traced model on what was found to feed it with."""
        root = diagnosis.root
        # What may stop the model, too, is told: no inputs would help.
        if fed.inputs is None and any(issubclass(each.rule, RaisedWhileTracing) for each in diagnosis.problems):
            return ()
        if fed.inputs is None and fed.failures and fed.unknown is not None:
            guess = Inputs(fed.unknown.guess, "inferred")
            found = [self.reporter.shape_problem(each, guess, target.qualname, root) for each in fed.failures]
            made_up = built.construct if built.is_made_up else None
            said = f"built as `{made_up.expression}`, with arguments that were inferred" if made_up is not None else ""
            ran = f"it ran on `{fed.ran_on}` before, and now no inputs are found" if fed.ran_on else ""
            explained = (
                replace(each, explanation="\n".join(filter(None, (each.explanation, ran, said)))) for each in found
            )
            return tuple(replace(each, severity="warning") for each in explained)
        if fed.inputs is None:
            return self._unfed(target, built.root, fed.unknown)
        inputs = fed.inputs
        failures = (each for each in fed.failures if not self.is_told(each.error))
        return merged([self.reporter.shape_problem(each, inputs, target.qualname, root) for each in failures])

    def of_former(self, target: TraceTarget, built: Built, former: Former | None) -> Problem | None:
        """Return what is told of a model that ran with other arguments, or on other inputs, before it was edited."""
        if former is None or former.failure is None or former.built.construct is None:
            return None
        inputs, construct = Inputs(former.built.inputs, "inferred"), former.built.construct.expression
        found = self.reporter.shape_problem(former.failure, inputs, target.qualname, former.built.root)
        is_built_so = built.construct is not None and built.construct.expression == construct
        ran = f"it ran on `{inputs.expression}` before" + ("" if is_built_so else f", built as `{construct}`")
        now = "on others" if is_built_so else "if it is built otherwise"
        explanation = "\n".join(filter(None, (found.explanation, f"{ran}; now it only runs {now}")))
        message = f"as {'fed' if is_built_so else 'built'} before: {found.message}"
        return replace(found, message=message, explanation=explanation, severity="information")

    def guards(self, report: TargetReport, captured: Capture | None) -> tuple[Guard, ...]:
        """Return what a graph holds for: what was decided on the way, and then what was asked of the inputs."""
        known = {each.expression for each in report.guards}
        more = self.reporter.guards(captured.guards) if captured is not None else ()
        return (*report.guards, *(each for each in more if each.expression not in known))

    def is_told(self, error: BaseException | None) -> bool:
        """Whether an error only says that a name or a package is missing, and the import of it is a problem already."""
        if isinstance(error, AttributeError) and lacks_base(kept_in(error, AttributeError, "obj")):
            return True
        if isinstance(error, NotImplementedError) and speaks_of_stand_in(error):
            return any(each.needed for each in self.loaded.missing)
        if isinstance(error, ModuleNotFoundError):
            name = kept_in(error, ImportError, "name")
            return any(each.needed and each.name == name for each in self.loaded.missing)
        return isinstance(error, NameError) and kept_in(error, NameError, "name") in self.loaded.broken

    def _unfed(self, target: TraceTarget, root: Any, unknown: Unknown | None) -> tuple[Problem, ...]:
        """Return what is told of a model that nothing was found for to feed it with."""
        if unknown is None or any(inputs.source in SAID for inputs in target.inputs):
            return ()
        return (self.reporter.unfed(target, root, unknown.parameters, unknown.guess, unknown.complaint),)
