// The operator console: the tab of this page is brought into view where there is no room for all of them.
"use strict";

document.querySelector(".ops-tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
