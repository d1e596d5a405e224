"""The pages people look at: server-rendered, one module a subject."""

from __future__ import annotations
