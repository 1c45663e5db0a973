"""What passes are run and combined by."""

from fxengine.on_demand import submodules_of

__getattr__ = submodules_of(__name__)
