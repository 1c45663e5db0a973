"""Silent errors: what raises nothing while a model is traced, and makes a graph that does something else.

Each kind has a module of its own with a finder: it reads the graph and the source of the code that ran, and tries out
what the source cannot tell by walking through the model once more. A model that gives no cause for suspicion is not
walked through again.
"""

from fxengine.silent.finding import find_silent

__all__ = ["find_silent"]
