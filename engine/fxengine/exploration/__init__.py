"""`diagnose`: traces a model in every way it can go and says all that stops a trace, instead of raising the first.

A tracer is run again and again. Where it refuses a symbolic value something, the run goes on with an answer; which one
is taken where, and which are still to be tried, `runs` decides. `steering` is what happens within one run, `handlers`
knows whether the user's own code would catch an exception, `answers` which outcome of a question is the likely one, and
`problems` turns what happened into words. What a tracer accepts is not changed.
"""

from fxengine.diagnosis import Diagnosis, Guard, TracingProblem
from fxengine.exploration.memory import Memory
from fxengine.exploration.runs import Budget, diagnose, diagnose_in_steps

__all__ = ["Budget", "Diagnosis", "Guard", "Memory", "TracingProblem", "diagnose", "diagnose_in_steps"]
