"""`python -m mailsift`."""

from __future__ import annotations

from mailsift.cli import main

if __name__ == "__main__":
    main()
