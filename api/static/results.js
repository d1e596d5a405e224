// Validate, lists and jobs: what is nicer without loading a page again. Without this the forms still work.
"use strict";

(() => {
  const { say, token, asking, start, carry, sameIn, signInAgain } = window.mailsift;
  const parse = (html) => new DOMParser().parseFromString(html, "text/html"); // pages of ours, escaped there

  async function trouble(answer) {
    try { return (await answer.json()).message; } catch { return "That did not work. Try again."; }
  }

  // ---- form[data-fragment="id"]: the answer is a piece of a page, shown in the element with this id ----
  document.addEventListener("submit", async (event) => {
    const form = event.target;
    if (!form.dataset.fragment || event.defaultPrevented) return;
    event.preventDefault();
    const place = document.getElementById(form.dataset.fragment);
    const busy = form.querySelector("[data-busy]");
    busy.hidden = false;
    place.classList.add("asking");
    try {
      const answer = await fetch(form.action, { method: "POST", body: new URLSearchParams(new FormData(form)), headers: { "X-Fragment": "1", "X-CSRF-Token": token(), Accept: "application/json" } });
      if (answer.status === 401) { signInAgain(); return; }
      if (answer.ok) {
        place.replaceChildren(...parse(await answer.text()).body.childNodes);
        start(place);
        place.scrollIntoView({ block: "nearest" });
      } else {
        refuse(place, await trouble(answer));
      }
    } catch {
      refuse(place, "The server cannot be reached.");
    } finally {
      busy.hidden = true;
      place.classList.remove("asking");
      delete form.dataset.sent;
    }
  });

  function refuse(place, text) {
    const told = document.createElement("p");
    told.className = "callout bad";
    told.setAttribute("role", "alert");
    told.textContent = text;
    place.replaceChildren(told);
  }

  // ---- form[data-upload="url"]: the file goes out in pieces (tus 1.0.0), and goes on where it broke off ----
  const PIECE = 8 * 2 ** 20, WAITS = [1, 2, 4, 8, 15, 30]; // seconds; the last one again and again
  const TUS = { "Tus-Resumable": "1.0.0" };
  const headers = (more) => ({ ...TUS, Accept: "application/json", "X-CSRF-Token": token(), ...more });
  const base64 = (text) => btoa(String.fromCharCode(...new TextEncoder().encode(text)));
  let leaving = null; // the upload that would be cut by leaving
  window.addEventListener("beforeunload", (event) => { if (leaving) event.preventDefault(); });

  class Refused extends Error {}
  async function refusal(status, answer) {
    if (status === 401) { leaving = null; signInAgain(); return new Promise(() => {}); } // what is here is kept there
    throw new Refused(answer?.message ?? "The upload did not work. Try again.");
  }
  async function askedFor(address, options) { // null: there was no answer, or none that counts
    let answer;
    try { answer = await fetch(address, options); } catch { return null; }
    if (answer.status >= 500) return null;
    if (!answer.ok) await refusal(answer.status, await answer.json().catch(() => null));
    return answer;
  }
  function sent(upload, piece) { // resolves with [status, new offset, answer]; status 0: the connection broke
    return new Promise((resolve) => {
      const request = new XMLHttpRequest(); // fetch tells of no progress
      request.open("PATCH", upload.href);
      request.responseType = "json";
      for (const [name, value] of Object.entries(headers({ "Content-Type": "application/offset+octet-stream", "Upload-Offset": upload.offset }))) request.setRequestHeader(name, value);
      request.upload.addEventListener("progress", (event) => upload.show(upload.offset + event.loaded));
      request.addEventListener("loadend", () => resolve([request.status, Number(request.getResponseHeader("Upload-Offset")), request.response]));
      upload.abort = () => request.abort();
      request.send(piece);
    });
  }
  async function announce(upload, address) {
    const { file } = upload;
    const name = file.name.toWellFormed?.() ?? file.name;
    const known = [...document.querySelectorAll("[data-unfinished]")].find((row) => row.dataset.name === name && Number(row.dataset.length) === file.size && row.dataset.modified === String(file.lastModified));
    if (known) { upload.href = known.dataset.unfinished; upload.offset = NaN; return true; }
    const metadata = `filename ${base64(name)},modified ${base64(String(file.lastModified))}`;
    const answer = await askedFor(address, { method: "POST", headers: headers({ "Upload-Length": file.size, "Upload-Metadata": metadata }) });
    if (answer) { upload.href = answer.headers.get("Location"); upload.offset = 0; }
    return Boolean(answer);
  }
  async function step(upload, address) { // does one thing; false: wait, then try again
    if (!upload.href) return announce(upload, address);
    if (Number.isNaN(upload.offset)) {
      const answer = await askedFor(upload.href, { method: "HEAD", headers: headers() });
      if (answer) upload.offset = Number(answer.headers.get("Upload-Offset"));
      return Boolean(answer);
    }
    const [status, offset, answer] = await sent(upload, upload.file.slice(upload.offset, upload.offset + PIECE));
    if (status === 204) { upload.offset = offset; upload.done = offset === upload.file.size; return true; }
    upload.offset = NaN; // only the server knows
    if (status && status < 500 && status !== 409 && !upload.cancelled) await refusal(status, answer);
    return false;
  }
  async function send(form, file) {
    const bar = form.querySelector("[data-uploading]"), alert = form.querySelector("[data-trouble]");
    const text = form.querySelector("[data-upload-text]"), state = form.querySelector("[data-upload-state]");
    const progress = bar.querySelector("progress"), zone = form.querySelector("[data-drop]");
    const stop = form.querySelector("[data-upload-cancel]");
    const upload = { file, href: "", offset: 0, done: false, cancelled: false, abort() {}, wake() {} };
    upload.show = (bytes) => {
      const share = (100 * bytes) / (file.size || 1);
      progress.value = share;
      text.textContent = share < 100 ? `${Math.floor(share)} %` : "Looking at it…";
    };
    stop.onclick = () => { upload.cancelled = true; upload.abort(); upload.wake(); };
    form.querySelector("[data-upload-name]").textContent = file.name;
    text.textContent = state.textContent = "";
    progress.value = 0;
    alert.hidden = zone.hidden = true;
    bar.hidden = false;
    leaving = upload;
    let told = "";
    try {
      for (let failed = 0; !upload.done && !upload.cancelled;) {
        if (await step(upload, form.dataset.upload)) { failed = 0; state.textContent = ""; upload.show(upload.offset || 0); continue; }
        if (upload.cancelled) break;
        state.textContent = "The connection broke off. It goes on by itself; what has arrived is kept.";
        if (!failed) say(state.textContent);
        await new Promise((resolve) => { upload.wake = resolve; setTimeout(resolve, 1000 * WAITS[Math.min(failed, WAITS.length - 1)]); });
        failed += 1;
      }
      if (upload.cancelled && upload.href) {
        await askedFor(upload.href, { method: "DELETE", headers: headers() });
        document.querySelector(`[data-unfinished="${CSS.escape(upload.href)}"]`)?.remove();
      }
      told = upload.cancelled ? "The upload is cancelled; nothing of it is kept." : "";
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      told = error.message;
    } finally {
      leaving = null;
    }
    if (upload.done) { say("Uploaded"); location.assign(upload.href.replace(/^\/uploads/, "/lists")); return; }
    bar.hidden = true;
    zone.hidden = false;
    form.reset();
    alert.textContent = told;
    alert.hidden = false;
  }
  for (const form of document.querySelectorAll("form[data-upload]")) {
    const zone = form.querySelector("[data-drop]");
    form.querySelector("[data-plain]").hidden = true; // what is chosen or dropped goes out at once
    const input = form.querySelector("input[type=file]");
    form.addEventListener("submit", (event) => {
      if (!input.files.length) return;
      event.preventDefault();
      send(form, input.files[0]);
    });
    input.addEventListener("change", () => { if (input.files.length) send(form, input.files[0]); });
    for (const name of ["dragenter", "dragover"]) {
      zone.addEventListener(name, (event) => { event.preventDefault(); zone.classList.add("over"); });
    }
    for (const name of ["dragleave", "drop"]) zone.addEventListener(name, () => zone.classList.remove("over"));
    zone.addEventListener("drop", (event) => {
      event.preventDefault();
      const [file] = event.dataTransfer.files;
      if (file) send(form, file);
    });
  }

  // ---- [data-job="url"]: follow a job; when its state changes, what stands around it is fetched anew ----
  function follow(root) {
    const source = new EventSource(root.dataset.job);
    const take = (event) => {
      const told = JSON.parse(event.data);
      for (const [name, value] of Object.entries(told)) {
        for (const element of root.querySelectorAll(`[data-field="${CSS.escape(name)}"]`)) {
          if (element.dataset.attr) element.setAttribute(element.dataset.attr, String(value));
          else element.textContent = String(value);
        }
      }
      if (event.type === "end" || (told.stage && told.stage !== root.dataset.stage)) {
        source.close();
        again(told.doing);
      }
    };
    source.addEventListener("progress", take);
    source.addEventListener("end", take);
    source.addEventListener("error", () => { // an answer that is an error ends it for good: the page says what is the matter
      if (source.readyState === EventSource.CLOSED) setTimeout(() => { if (root.isConnected) again(); }, 5000);
    });
    window.addEventListener("pagehide", () => source.close());
  }
  async function again(words) {
    if (document.querySelector("dialog[open]")) { setTimeout(again, 1000, words); return; }
    try {
      const answer = await fetch(location.href, asking());
      if (answer.status >= 500) throw new Error(answer.statusText);
      if (!answer.ok || answer.redirected) { location.reload(); return; }
      const page = parse(await answer.text()), fresh = page.getElementById("main");
      const main = document.getElementById("main"), focused = main.contains(document.activeElement) && document.activeElement;
      carry(main, fresh);
      document.title = page.title;
      main.replaceChildren(...fresh.childNodes);
      start(main);
      begin();
      if (focused) (sameIn(main, focused) ?? main).focus({ preventScroll: true });
      if (words) say(words);
    } catch {
      setTimeout(again, 2000, words); // the network or the server is away; the next try may find it
    }
  }

  // ---- [data-soft]: links and forms that stay on the page fetch it and replace this element only ----
  let asked = 0; // only what was asked for last is shown: answers may come in another order
  async function soft(element, address, { push = true } = {}) {
    const mine = ++asked;
    element.classList.add("busy");
    try {
      const answer = await fetch(address, asking());
      const fresh = answer.ok && parse(await answer.text()).getElementById(element.id);
      if (mine !== asked) return;
      if (!fresh) { location.assign(address); return; }
      const before = document.activeElement, turned = before?.closest?.(".pager, .jump");
      const focused = before?.id;
      if (push) history.pushState({ soft: element.id }, "", answer.url);
      element.replaceWith(fresh);
      start(fresh);
      // Another page of rows is read from its top; whoever filters or sorts stays where they are.
      if (turned) {
        fresh.querySelector("#rows")?.focus({ preventScroll: true });
        fresh.scrollIntoView({ block: "start" });
      } else if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
      const said = fresh.querySelector("[data-said]");
      if (said) say(said.textContent);
    } catch {
      if (mine === asked) location.assign(address);
    }
  }
  const stays = (address) => address.origin === location.origin && address.pathname === location.pathname;
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("[data-soft] a[href]");
    if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
    if (!stays(new URL(link.href))) return;
    event.preventDefault();
    soft(link.closest("[data-soft]"), link.href);
  });
  document.addEventListener("submit", (event) => {
    const form = event.target;
    const element = form.closest("[data-soft]");
    if (!element || form.method !== "get" || event.defaultPrevented || !stays(new URL(form.action))) return;
    event.preventDefault();
    const asked = new URLSearchParams([...new FormData(form)].filter(([, value]) => value !== ""));
    soft(element, `${new URL(form.action).pathname}?${asked}`);
  });
  window.addEventListener("popstate", () => {
    const element = document.querySelector("[data-soft]");
    if (element) soft(element, location.href, { push: false });
  });

  // ---- select[data-sure="id"]: what its option is not certain of has to be confirmed in the element with this id ----
  function askWhetherSure(select) {
    const place = document.getElementById(select.dataset.sure);
    const unsure = select.selectedOptions[0]?.dataset.certain === undefined;
    place.hidden = !unsure;
    for (const box of place.querySelectorAll("input")) box.required = unsure;
  }
  for (const select of document.querySelectorAll("[data-sure]")) {
    select.addEventListener("change", () => askWhetherSure(select));
    askWhetherSure(select);
  }

  function begin() {
    for (const root of document.querySelectorAll("[data-job]")) follow(root);
  }
  begin();
})();
