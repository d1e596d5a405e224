"""axe-core, the accessibility judge: fetched once by npm into pytest's cache, known by its digest."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from playwright.async_api import Page

from tests.external.browser.chromium import NARROW, WIDE, Scheme, out_of_reach, sideways

VERSION = "4.14.1"
DIGEST = "29348999450cdf2849a8e70b7912fc2da85a849da39c0d0d5394f51d4a9ed95c"
"""SHA-256 of its axe.min.js."""

WHOLE: tuple[tuple[Scheme, int], ...] = (("light", WIDE), ("dark", NARROW))
"""Every rule is asked in both widths and in both schemes."""
COLOURS: tuple[tuple[Scheme, int], ...] = (("dark", WIDE), ("light", NARROW))
"""Of the other two only the rules about colours are asked, which are all that look at the scheme."""
WIDTHS = (WIDE, 1024, 960, 768, NARROW, 320)
_UNFOLD = "for (const folded of document.querySelectorAll('main details.more')) folded.open = true"

_NAMELESS = """() => [...document.querySelectorAll("table")].filter(one =>
  !(one.ariaLabel || document.getElementById(one.getAttribute("aria-labelledby"))?.textContent)
).map(one => one.textContent.trim().slice(0, 80))"""

_RUN = """async (colours) => {
  const only = colours ? {runOnly: {type: "rule", values: ["color-contrast", "link-in-text-block"]}} : {};
  const told = await axe.run(document, {resultTypes: ["violations"], ...only});
  return told.violations.map(one => ({
    id: one.id, impact: one.impact, help: one.help,
    nodes: one.nodes.map(node => node.html.slice(0, 200) + "  " + (node.failureSummary ?? "")),
  }));
}"""


def fetch(folder: Path) -> str:
    """Return axe's source, fetched into this folder when it is not there."""
    script = folder / "axe.min.js"
    if not script.exists():
        switches = ("--no-save", "--ignore-scripts", "--no-audit", "--no-fund", "--silent")
        with tempfile.TemporaryDirectory(dir=folder) as fresh:
            wanted = f"axe-core@{VERSION}"
            subprocess.run(["npm", "install", "--prefix", fresh, *switches, wanted], check=True)
            (Path(fresh) / "node_modules" / "axe-core" / script.name).replace(script)
    source = script.read_bytes()
    assert hashlib.sha256(source).hexdigest() == DIGEST, "this is not the axe-core that was looked at"
    return source.decode()


async def violations(page: Page, source: str, *, colours: bool = False) -> list[dict[str, Any]]:
    """Return all that axe finds on the page, minor or critical; `colours`: only by its rules about them."""
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(source)  # by the debugger: the page's own policy lets no script in
    found: list[dict[str, Any]] = await page.evaluate(_RUN, colours)
    return found


async def check_looks(page: Page, source: str) -> None:
    """The page as it stands, in both schemes and widths: nothing for axe, never wider than its window.

    Tables have names. Unfolded, nothing on it lies where it cannot be seen, in any width; nor do its menus.
    """
    for scheme, width in WHOLE + COLOURS:
        await page.emulate_media(color_scheme=scheme)
        await page.set_viewport_size({"width": width, "height": 900})
        found = await violations(page, source, colours=(scheme, width) in COLOURS)
        assert found == [], (page.url, scheme, width)
    assert await page.evaluate(_NAMELESS) == [], f"{page.url}: a table whose name nobody hears"
    await page.evaluate(_UNFOLD)
    for width in WIDTHS:
        await page.set_viewport_size({"width": width, "height": 900})
        await _check_reach(page)
        for menu in await page.locator("main details[data-menu] > summary").all():
            await menu.click()
            await _check_reach(page)
            await menu.click()


async def _check_reach(page: Page) -> None:
    assert await sideways(page) == 0, (page.url, page.viewport_size)
    assert await out_of_reach(page) == [], (page.url, page.viewport_size)
