"""A hostile page, and servers of the project that it would reach."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rlver.tasks.runtime import servers

REPOSITORY = Path(__file__).parents[2]
EVIL = "http://evil.example"
PREFLIGHT = {"Access-Control-Request-Method": "PATCH", "Access-Control-Request-Headers": "content-type"}


def planned(what: Any, monkeypatch: pytest.MonkeyPatch) -> servers.PlannedServer:
    """The server that would be started."""
    seen: list[servers.PlannedServer] = []

    class Seen(Exception):
        pass

    def look(one: servers.PlannedServer) -> None:
        seen.append(one)
        raise Seen

    monkeypatch.setattr(servers, "serving", look)
    with pytest.raises(Seen), what():
        pass
    return seen[0]
