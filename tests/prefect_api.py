"""The API of a Prefect server that a test has started, asked with its key."""

from __future__ import annotations

from pathlib import Path

import httpx

from rlver.tasks.runtime import environment


def asked_with_key(root: Path, url: str) -> httpx.Client:
    """A client of the server at `url`, which was started over the PREFECT_HOME of the project in `root`."""
    key = environment.find_key(environment.addresses(root).prefect_home, url)
    assert key, f"no key is kept for {url}"
    name, _, password = key.partition(":")
    return httpx.Client(base_url=f"{url}/api", auth=(name, password), timeout=30, trust_env=False)
