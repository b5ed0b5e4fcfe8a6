"""The scripted server of the endpoint's tests, and a writer that asks it."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "endpoint"))
