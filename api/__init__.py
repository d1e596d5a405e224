"""Let others ask: HTTP /v1, its keys, its limits and its errors."""

from __future__ import annotations
