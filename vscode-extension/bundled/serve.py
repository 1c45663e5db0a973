"""Starts the server from the packages beside this file; run as `python -I serve.py`, so that no others are seen.

PYTHONPATH stays as the person set it: it is meant for their models' interpreter, which inherits it.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent / "libs"))

from fxls.__main__ import main

if __name__ == "__main__":
    sys.exit(main())
