"""Imports that go in a circle."""

import importlib
import sys

import pytest

from fxworker.importing import importing

pytestmark = pytest.mark.usefixtures("imports_undone")

MODEL = """
from round.helpers import helped
class Base: ...
"""

HELPERS = """
from round.{around} import Base
def helped(): return Base
"""


def test_it_is_entered_where_it_closes(tmp_path):
    (tmp_path / "round").mkdir()
    (tmp_path / "round" / "__init__.py").write_text("")
    (tmp_path / "round" / "model.py").write_text("from round import helpers\nclass Base: ...\n")
    (tmp_path / "round" / "helpers.py").write_text(HELPERS.format(around="model"))
    with pytest.raises(ImportError, match="partially initialized"):
        importlib.import_module("round.model")
    assert importing(lambda: importlib.import_module("round.model")) == []
    assert sys.modules["round.helpers"].helped() is sys.modules["round.model"].Base


def test_one_that_closes_nowhere_is_told(tmp_path):
    (tmp_path / "round").mkdir()
    (tmp_path / "round" / "__init__.py").write_text("")
    (tmp_path / "round" / "model.py").write_text(MODEL)
    (tmp_path / "round" / "helpers.py").write_text(HELPERS.format(around="model"))
    with pytest.raises(ImportError, match="'Base' from partially initialized"):
        importing(lambda: importlib.import_module("round.model"))
