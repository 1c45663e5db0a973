"""Unification: what variables must stand for so that two structures are the same.

The names are those of torch.fx's package, which is a copy of a general library; of it what is here is what types of
graphs need.
"""

from fxengine.experimental.unification.core import reify, unifiable, unify
from fxengine.experimental.unification.variable import Var, isvar, var, variables, vars  # noqa: A004 - torch.fx's name.

__all__ = ["Var", "isvar", "reify", "unifiable", "unify", "var", "variables", "vars"]
