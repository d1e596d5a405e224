"""Every Redis key: facts, throttle, request limits, what lies in the broker. Lua: storage/lua."""

from __future__ import annotations
