"""Where customers' lists lie and their results go: object stores and tables that are not ours."""

from __future__ import annotations
