"""Places: where a list is fetched from and where results are put, beside uploads and downloads."""

from __future__ import annotations
