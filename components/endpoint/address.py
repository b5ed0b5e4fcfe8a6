"""Addresses of chat endpoints: which is one, whose key it may get, and whether it is on this machine."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

_PORTS = {"http": 80, "https": 443}


def check_base_url(base_url: str) -> str:
    """`base_url` as it is. Raises ValueError unless it is a plain http(s) address: secrets in an address would end in logs and messages."""
    if set("@?#") & set(base_url):
        raise ValueError("the address of an endpoint must hold no user, password or query: put the key into its environment variable")
    if origin(base_url) is None:
        raise ValueError("the address of an endpoint must look like http://127.0.0.1:8100/v1")
    return base_url


def origin(base_url: str) -> str | None:
    """Scheme, host and port of an http(s) address, in one form for all ways to write them: whom a key was given for. None for no address.

    Only ASCII without spaces and backslashes counts as an address: in all else programs do not agree where the host ends.
    """
    if not re.fullmatch(r"[!-\[\]-~]+", base_url):
        return None
    try:
        parts = urlsplit(base_url)
        port = parts.port if parts.port is not None else _PORTS.get(parts.scheme)
    except ValueError:
        return None
    host = f"[{parts.hostname}]" if parts.hostname and ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}:{port}" if parts.scheme in _PORTS and host and port else None


def is_on_this_machine(base_url: str) -> bool:
    host = urlsplit(base_url).hostname or ""
    return host in {"localhost", "::1"} or host.startswith("127.")
