"""What people type: one module a family of commands."""

from __future__ import annotations
