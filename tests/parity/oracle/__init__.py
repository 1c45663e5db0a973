"""Which errors a model has under torch.fx, all of them, found with torch.fx alone: the judge of `fxengine.diagnose`.

`sites` explores a model with a tracer of torch.fx that goes on where torch.fx refuses; `confirm` has torch.fx raise at
one site with all before it answered; `compare` lists where a diagnosis says otherwise. `python -m tests.parity.oracle`
prints that for real models. Nothing of the engine is used for the search.
"""

from tests.parity.oracle.comparison import Comparison, compare
from tests.parity.oracle.search import Budget, Sites, confirm, sites
from tests.parity.oracle.steps import Evidence, Site

__all__ = ["Budget", "Comparison", "Evidence", "Site", "Sites", "compare", "confirm", "sites"]
