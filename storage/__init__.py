"""Remember it: every line of SQL, every Redis key and Lua script, every blob path, the migrations."""

from __future__ import annotations
