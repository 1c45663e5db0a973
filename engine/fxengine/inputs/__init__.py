"""Example inputs for a model about which nothing is said: inferred from its layers, names and annotations, and tried.

``infer_inputs`` is the way in. It never fails: where no inputs are found on which the model runs, the best attempt
comes back and says so. Comments and call sites in the source are not looked at here; whoever reads source prefers
those.
"""

from fxengine.inputs.disagreements import Disagreement, disagreements, disagreements_told
from fxengine.inputs.recipes import Constant, Listing, Recipe, Record, TensorRecipe
from fxengine.inputs.search import Attempt, InferredInputs, infer_inputs, materialize

__all__ = [
    "Attempt",
    "Constant",
    "Disagreement",
    "InferredInputs",
    "Listing",
    "Recipe",
    "Record",
    "TensorRecipe",
    "disagreements",
    "disagreements_told",
    "infer_inputs",
    "materialize",
]
