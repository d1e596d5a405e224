"""Is this address good? Syntax, lists, DNS, SMTP probe and judge; no SQL, no Redis, no HTTP."""

from __future__ import annotations
