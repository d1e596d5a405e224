"""Texts that break pages which take them for markup, and a way to see that none does."""

from __future__ import annotations

import html

SCRIPT = "<script>alert(1)</script>"
IMAGE = '"><img src=x onerror=alert(2)>'
ATTRIBUTE = "' onmouseover='alert(3)"
TEMPLATE = "{{ 76543*76543 }}{% raw %}"
TEMPLATE_SAYS = str(76543 * 76543)
"""What a page holds that takes it for a template, and no number else."""


def shown_as_text(page: str, text: str) -> bool:
    """Say whether a page holds the text, and only as text."""
    escaped = page.replace("&#34;", "&quot;").replace("&#39;", "&#x27;")
    return html.escape(text) in escaped and text not in page
