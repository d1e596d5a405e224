"""Runs the sandbox's commands: `python -m mailsift.sandbox`."""

from __future__ import annotations

from mailsift.sandbox.server import sandbox_app

if __name__ == "__main__":
    sandbox_app()
