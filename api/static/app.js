// What pages do beyond links and forms. Everything here only adds: without it the forms still work.
"use strict";

(() => {
  const token = () => document.querySelector('meta[name="csrf"]').content;
  // What asks for a piece of a page says of which one: a session has one account, whatever other tabs show.
  const asking = (more) => ({ headers: { Accept: "text/html", "X-CSRF-Token": token() }, ...more });

  // One place where a screen reader is told what has just happened.
  const voice = document.createElement("p");
  voice.className = "visually-hidden";
  voice.setAttribute("aria-live", "polite");
  document.body.append(voice);
  const say = (text) => { voice.textContent = ""; requestAnimationFrame(() => { voice.textContent = text; }); };

  // ---- data-copy="id": copy what the element with this id holds ----
  async function copy(button) {
    const source = document.getElementById(button.dataset.copy);
    const text = "value" in source ? source.value : source.textContent;
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      source.focus();
      source.select?.();
      if (!document.execCommand("copy")) return;
    }
    const label = button.querySelector("span") ?? button;
    const before = label.dataset.before ?? label.textContent;
    label.dataset.before = before;
    label.textContent = "Copied";
    say("Copied");
    setTimeout(() => { label.textContent = before; }, 2000);
  }

  // ---- data-confirm="question", on a form or on the option that is chosen in it: asked before it is sent ----
  function confirm(form, submitter, words, yesWords) {
    const dialog = document.createElement("dialog");
    const question = document.createElement("p");
    question.id = "question";
    question.textContent = words;
    dialog.setAttribute("aria-labelledby", "question");
    const buttons = document.createElement("div");
    buttons.className = "form-end";
    const no = document.createElement("button");
    no.className = "btn";
    no.textContent = "Go back"; // “Cancel” is what some questions ask about
    no.addEventListener("click", () => dialog.close());
    const yes = document.createElement("button");
    yes.className = `btn ${submitter?.classList.contains("danger") ? "danger" : "primary"}`;
    yes.textContent = yesWords || submitter?.textContent.trim() || "Go on";
    yes.addEventListener("click", () => {
      form.dataset.confirmed = "yes";
      dialog.close();
      form.requestSubmit(submitter);
    });
    buttons.append(no, yes);
    dialog.append(question, buttons);
    dialog.addEventListener("close", () => { dialog.remove(); submitter?.focus(); });
    document.body.append(dialog);
    dialog.showModal();
  }

  document.addEventListener("submit", (event) => {
    const form = event.target;
    const chosen = form.querySelector("option[data-confirm]:checked");
    const question = form.dataset.confirm ?? chosen?.dataset.confirm;
    if (question && form.dataset.confirmed !== "yes") {
      event.preventDefault();
      confirm(form, event.submitter, question, chosen?.textContent);
      return;
    }
    delete form.dataset.confirmed;
    if (form.method !== "post") return;
    if (form.dataset.sent) { event.preventDefault(); return; } // a second click is not a second order
    form.dataset.sent = "yes";
    keep(form);
    setTimeout(() => { delete form.dataset.sent; }, 30_000); // no answer, or the browser was told to stop
  });
  window.addEventListener("pageshow", () => {
    for (const form of document.forms) delete form.dataset.sent;
  });

  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("[data-copy]");
    if (button) copy(button);
    for (const open of document.querySelectorAll("[data-menu][open]")) {
      if (!open.contains(event.target)) open.open = false;
    }
  });
  document.addEventListener("keydown", (event) => {
    const open = document.querySelector("[data-menu][open]");
    if (event.key === "Escape" && open) { open.open = false; open.querySelector("summary").focus(); }
  });
  document.addEventListener("focusin", (event) => {
    if (event.target.matches?.("[data-select]")) event.target.select();
  });

  // ---- a form that meets an ended session comes back filled in: kept in this tab until the next page, no longer ----
  // Never kept: passwords, codes, files, what is hidden. data-ended marks the pages that lead back to the form.
  const KEPT = "mailsift-form", UNKEPT = new Set(["password", "hidden", "file", "submit", "button"]);
  const visitor = () => document.querySelector('meta[name="visitor"]')?.content;
  const fieldsOf = (form) => [...form.elements].filter((field) => field.name && !UNKEPT.has(field.type) && field.autocomplete !== "one-time-code");
  const ticks = (field) => field.type === "checkbox" || field.type === "radio";
  function remember(kept) {
    try {
      if (kept) sessionStorage.setItem(KEPT, JSON.stringify(kept));
      else sessionStorage.removeItem(KEPT);
    } catch { /* no room, or not allowed: then it is typed again */ }
  }
  const actionOf = (form) => form.getAttribute("action"); // a field may be called action, too
  function keep(form) {
    if (!visitor()) return;
    const fields = fieldsOf(form).map((field) => [field.name, ticks(field) ? field.checked : field.value, field.type]);
    const place = [...document.forms].filter((one) => actionOf(one) === actionOf(form)).indexOf(form);
    const files = [...form.elements].some((field) => field.type === "file");
    remember({ who: visitor(), action: actionOf(form), place, fields, files });
  }
  function bringBack() {
    let kept = null;
    try { kept = JSON.parse(sessionStorage.getItem(KEPT)); } catch { /* as if there were none */ }
    if (!kept) return;
    if (document.querySelector("[data-ended]")) { remember({ ...kept, ended: true }); return; }
    if (!visitor()) return; // still signing in
    remember(null);
    const form = [...document.forms].filter((one) => actionOf(one) === kept.action)[kept.place];
    if (!kept.ended || kept.who !== visitor() || !form) return;
    const fields = fieldsOf(form);
    kept.fields.forEach(([name, value, type], at) => {
      const field = fields[at];
      if (field?.name !== name || field.type !== type) return; // the page has changed
      if (ticks(field)) field.checked = value;
      else field.value = value;
      field.dispatchEvent(new Event("input", { bubbles: true }));
      if (!field.closest("[data-autosubmit]")) field.dispatchEvent(new Event("change", { bubbles: true }));
    });
    for (let above = form.closest("details"); above; above = above.parentElement.closest("details")) above.open = true;
    const told = document.createElement("p");
    told.className = "callout";
    told.setAttribute("role", "status");
    told.textContent = kept.files ? "Nothing was sent: your session had ended. Choose the file again." : "Nothing was sent: your session had ended. What you typed is back; look it over and send it again.";
    form.before(told);
  }
  function signInAgain() {
    location.assign(`/login?ended=1&next=${encodeURIComponent(location.pathname + location.search)}`);
  }

  // ---- data-autosubmit: a form that is sent when a choice is made ----
  document.addEventListener("change", (event) => {
    event.target.closest?.("form[data-autosubmit], [data-autosubmit]")?.closest("form")?.requestSubmit();
  });

  // ---- a live page says when it is not: after ten seconds without an answer, and while somebody is in it ----
  const SILENCE = 10_000, PATIENCE = 8_000;
  let heardAt = Date.now(), notice = null, held = false, ended = false;
  function heard() {
    heardAt = Date.now();
    if (!notice || ended) return;
    notice.remove();
    notice = null;
    document.body.classList.remove("stale");
    say("The page is live again.");
  }
  function listen() {
    if (document.hidden || notice || Date.now() - heardAt < SILENCE) return;
    notice = document.createElement("p");
    notice.className = "callout warn stale-notice";
    notice.setAttribute("role", "status");
    const since = document.createElement("time");
    since.dateTime = new Date(heardAt).toISOString();
    since.textContent = new Date(heardAt).toLocaleTimeString();
    if (held) notice.append("Paused since ", since, " while you use this part of the page. It goes on when you leave it.");
    else notice.append("No answer since ", since, ". What you see is from then; the page goes on by itself.");
    document.body.classList.toggle("stale", !held);
    document.querySelector("main .page-head").after(notice);
  }
  function end() { // once: each piece of a page asks by itself
    if (ended) return;
    ended = true;
    notice?.remove();
    notice = document.createElement("p");
    notice.className = "callout warn stale-notice";
    notice.setAttribute("role", "status");
    const load = document.createElement("a");
    load.href = location.href;
    load.textContent = "Load it again";
    notice.append("Since this page was loaded your account, role or session has changed, in another tab perhaps. ", load, ".");
    document.body.classList.add("stale");
    document.querySelector("main .page-head").after(notice);
  }
  // What was hidden was not asked: it gets the time of one answer before it counts as silent.
  document.addEventListener("visibilitychange", () => { if (!document.hidden && !notice) heardAt = Date.now(); });

  // What somebody has unfolded, ticked or chosen in a piece of a page stays so in the one that takes its place.
  function carry(before, after) {
    const twin = (element) => after?.querySelector(`#${CSS.escape(element.id)}`);
    for (const unfolded of before.querySelectorAll("details[id][open]")) twin(unfolded)?.setAttribute("open", "");
    for (const ticked of before.querySelectorAll("input[type=checkbox][id]:checked")) {
      const again = twin(ticked);
      if (again) again.checked = true;
    }
    for (const chosen of before.querySelectorAll("select[id]")) {
      const again = [...(twin(chosen)?.options ?? [])].find((one) => one.value === chosen.value);
      if (again) again.selected = true;
    }
  }

  // Nothing is taken from under somebody's hands: a press, the keyboard, a selection, a question that is open.
  function inUse(element) {
    const selection = getSelection();
    return Boolean(document.querySelector("dialog[open]") || element.querySelector(":active, :focus-visible") || (!selection.isCollapsed && selection.containsNode(element, true)));
  }
  const nameOf = (element) => element.ariaLabel ?? element.textContent;
  const sameIn = (place, element) => [...place.querySelectorAll(element.localName)].find((one) => one.id === element.id && nameOf(one) === nameOf(element));

  // ---- data-swap="url" data-every="2": fetch the fragment again and put it in place ----
  async function swap(element) {
    if (!element.isConnected) return;
    const again = (least = 0) => setTimeout(() => swap(element), 1000 * Math.max(least, element.dataset.every || 2));
    if (document.hidden) { again(); return; }
    try {
      const answer = await fetch(element.dataset.swap, asking({ signal: AbortSignal.timeout(PATIENCE) }));
      if (answer.redirected) { location.reload(); return; } // signed out
      if (answer.status === 403) { end(); return; }
      if (answer.ok) {
        const holder = document.createElement("template");
        holder.innerHTML = await answer.text(); // a page of ours, escaped where it was made
        const fresh = holder.content.firstElementChild;
        held = Boolean(fresh) && inUse(element);
        if (!held) heard();
        if (fresh && !held) {
          const focused = element.contains(document.activeElement) && document.activeElement;
          carry(element, fresh);
          element.replaceWith(fresh);
          start(fresh);
          if (focused) sameIn(fresh, focused)?.focus({ preventScroll: true });
          return;
        }
      }
    } catch { held = false; /* the network is away; the next round may find it */ }
    again(2); // what is wanted at once is not asked for at once again and again
  }

  // ---- data-preview="url" data-preview-into="id": what its fields would do, told while they are filled in ----
  function preview(group) {
    let timer, asked = 0;
    const ask = async () => {
      const mine = ++asked;
      const fields = new URLSearchParams();
      for (const field of group.querySelectorAll("input[name], select[name]")) fields.set(field.name, field.value);
      try {
        const answer = await fetch(`${group.dataset.preview}?${fields}`, asking());
        if (!answer.ok || answer.redirected) return;
        const holder = document.createElement("template");
        holder.innerHTML = await answer.text(); // a page of ours, escaped where it was made
        if (mine === asked) document.getElementById(group.dataset.previewInto).replaceWith(holder.content.firstElementChild);
      } catch { /* the form works without it */ }
    };
    group.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(ask, 250); });
    ask();
  }

  // ---- data-zone takes the browser's time zone; data-zone-offer="zone in use" shows itself where that is another ----
  function zone(root) {
    const here = Intl.DateTimeFormat().resolvedOptions().timeZone ?? "";
    for (const field of root.querySelectorAll("[data-zone]")) {
      field.value = here;
      if (field.matches("button")) field.textContent = `Use ${here}`;
    }
    for (const offer of root.querySelectorAll("[data-zone-offer]")) {
      offer.hidden = !here || here === offer.dataset.zoneOffer;
    }
  }

  function start(root) {
    const all = (query) => [...(root.matches?.(query) ? [root] : []), ...root.querySelectorAll(query)];
    for (const button of all("[data-copy]")) button.hidden = false;
    for (const button of all("[data-without-js]")) button.hidden = true;
    for (const group of all("[data-preview]")) preview(group);
    for (const element of all("[data-swap]")) {
      setTimeout(() => swap(element), 1000 * Number(element.dataset.every || 2));
    }
  }
  zone(document);
  start(document);
  bringBack();
  if (document.querySelector("[data-swap]")) setInterval(listen, 1000);

  window.mailsift = { say, token, asking, start, carry, sameIn, signInAgain };
})();
