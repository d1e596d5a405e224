"""The operations under /v1."""

from __future__ import annotations
