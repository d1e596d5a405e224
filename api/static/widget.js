/* Mailsift's check of addresses in sign-up forms. <script src="…/widget.js" data-key="svc_pub_…" defer></script>
   checks every <input type="email" data-mailsift>. It never keeps a form from being sent, and stores nothing. */
(() => {
  "use strict";
  const script = document.currentScript;
  const base = new URL(script.src).origin, key = script.dataset.key;
  const PATIENCE = 800, PAUSE = 350;
  const WORDS = {
    syntax: "This does not look like a complete email address.",
    domain: "This domain does not receive email.",
    disposable: "This is a throw-away address.",
    typo: "Did you mean",
    accept: "Use it",
  };
  const word = (name) => script.dataset[`text${name[0].toUpperCase()}${name.slice(1)}`] ?? WORDS[name];
  // What is set through the field itself would be no news to frameworks that keep a copy of it.
  const write = Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set;
  let page = null, count = 0, pressed = false;

  // A message that comes between press and click would move the button away that somebody clicks on.
  addEventListener("pointerdown", (event) => { pressed = event.button === 0; }, true);
  for (const end of ["pointerup", "pointercancel"]) addEventListener(end, () => { pressed = false; }, true);
  const released = () => new Promise((done) => {
    const wait = () => (pressed ? setTimeout(wait, 50) : done());
    wait();
  });

  async function ask(path, body, signal) {
    const answer = await fetch(`${base}/v1/widget/${path}`, {
      method: "POST", mode: "cors", credentials: "omit", referrerPolicy: "no-referrer", signal,
      headers: { "Content-Type": "application/json" }, body: JSON.stringify({ key, ...body }),
    });
    if (!answer.ok) throw new Error(answer.status);
    return (await answer.json()).data;
  }

  // One token for this page, fetched when somebody comes to the field; the service takes each of its numbers once.
  function open() {
    if (!page || page.ends < Date.now() || page.number >= page.checks) {
      const mine = page = { ends: Infinity, number: 0, checks: Infinity };
      mine.opening = ask("session", {}, AbortSignal.timeout(5000)).then(
        ({ token, seconds, checks }) => Object.assign(mine, { token, checks, ends: Date.now() + seconds * 900 }),
        (error) => { page = null; throw error; });
      mine.opening.catch(() => {});
    }
    return page.opening;
  }

  async function check(email, signal) {
    const late = new Promise((_, refuse) => signal.addEventListener("abort", refuse));
    const opened = await Promise.race([open(), late]);
    try {
      return await ask("check", { token: opened.token, number: ++opened.number, email }, signal);
    } catch (error) {
      if (!signal.aborted) page = null;
      throw error;
    }
  }

  function attach(input) {
    if (input.mailsift) return;
    input.mailsift = true;
    const note = document.createElement("span");
    note.id = `mailsift-${++count}`;
    note.className = "mailsift-note";
    note.setAttribute("aria-live", "polite");
    input.after(note);
    input.setAttribute("aria-describedby", `${input.getAttribute("aria-describedby") ?? ""} ${note.id}`.trim());
    let timer, running, last = "";

    function show(verdict) {
      note.replaceChildren();
      input.dataset.mailsift = verdict ? verdict.why || "ok" : "";
      if (verdict?.why === "typo") {
        const button = document.createElement("button");
        button.type = "button";
        button.className = "mailsift-accept";
        button.textContent = word("accept");
        button.setAttribute("aria-label", `${word("accept")}: ${verdict.suggestion}`);
        button.addEventListener("click", () => {
          write.call(input, last = verdict.suggestion);
          show(null);
          input.dispatchEvent(new Event("input", { bubbles: true }));
          input.dispatchEvent(new Event("change", { bubbles: true }));
          input.focus();
        });
        note.append(`${word("typo")} ${verdict.suggestion}? `, button);
      } else if (verdict?.why) {
        note.textContent = word(verdict.why);
      }
      input.dispatchEvent(new CustomEvent("mailsift", { bubbles: true, detail: verdict }));
    }

    async function look() {
      const email = input.value.trim();
      if (email === last) return;
      last = email;
      running?.abort();
      const mine = running = new AbortController();
      const late = setTimeout(() => mine.abort(), PATIENCE);
      let verdict = null;  // whatever goes wrong: the form goes on as if nobody had looked
      try { verdict = await check(email, mine.signal); } catch { /* see above */ } finally { clearTimeout(late); }
      await released();
      if (mine === running && input.value.trim() === email) show(verdict);
    }

    function forget() {
      clearTimeout(timer);
      running?.abort();
      running = null;
      last = "";
      show(null);
    }

    input.addEventListener("input", () => {
      clearTimeout(timer);
      if (input.value.trim() === last) return;
      if (input.dataset.mailsift) show(null);
      // While somebody types, what is not finished yet is no mistake.
      if (/^\S+@\S+\.\S{2,}$/.test(input.value.trim())) timer = setTimeout(look, PAUSE);
    });
    input.form?.addEventListener("reset", forget);
    input.addEventListener("focus", open);
    input.addEventListener("blur", () => { clearTimeout(timer); if (input.value.trim()) look(); });
  }

  const attachAll = () => document.querySelectorAll("input[data-mailsift]").forEach(attach);
  if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", attachAll); else attachAll();
})();
