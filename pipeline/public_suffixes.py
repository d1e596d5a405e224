"""The public suffix list, read once per process: parsing it takes a twentieth of a second."""

from __future__ import annotations

from functools import cache

from publicsuffixlist import PublicSuffixList


@cache
def public_suffixes() -> PublicSuffixList:
    """Return the list as it came with the package; nobody may change it."""
    return PublicSuffixList()
