"""Every line of SQL: one module for what it speaks of, functions that take an open transaction."""

from __future__ import annotations
