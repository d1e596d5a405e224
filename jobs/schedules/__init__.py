"""Lists that are validated again on a cron line."""

from __future__ import annotations
