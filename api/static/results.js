// Validate, lists and jobs: what is nicer without loading a page again. Without this the forms still work.
"use strict";

(() => {
  const { say, token, start, keep, signInAgain } = window.mailsift;
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

  // ---- form[data-upload]: the file goes out as it is, with its progress ----
  function upload(form, file) {
    const bar = form.querySelector("[data-uploading]");
    const alert = form.querySelector("[data-trouble]");
    const text = form.querySelector("[data-upload-text]");
    const progress = bar.querySelector("progress");
    const zone = form.querySelector("[data-drop]");
    const over = (words) => { bar.hidden = true; zone.hidden = false; form.reset(); alert.textContent = words; alert.hidden = false; };
    form.querySelector("[data-upload-name]").textContent = file.name;
    text.textContent = "";
    progress.value = 0;
    alert.hidden = true;
    bar.hidden = false;
    zone.hidden = true;
    const request = new XMLHttpRequest();
    request.open("POST", form.action);
    request.responseType = "json";
    request.setRequestHeader("Content-Type", "application/octet-stream");
    request.setRequestHeader("Accept", "application/json");
    request.setRequestHeader("X-Fragment", "1");
    request.setRequestHeader("X-CSRF-Token", token());
    request.setRequestHeader("X-File-Name", encodeURIComponent(file.name.toWellFormed?.() ?? file.name));
    request.upload.addEventListener("progress", (event) => {
      const share = event.total ? (100 * event.loaded) / event.total : 100;
      progress.value = share;
      text.textContent = share < 100 ? `${Math.floor(share)} %` : "Looking at it…";
    });
    request.addEventListener("load", () => {
      if (request.status === 200) { say("Uploaded"); location.assign(request.response.href); }
      else over(request.response?.message ?? "The upload did not work. Try again.");
    });
    request.addEventListener("error", () => over("The connection broke off. Nothing was kept; try again."));
    request.send(file);
  }
  for (const form of document.querySelectorAll("form[data-upload]")) {
    const zone = form.querySelector("[data-drop]");
    form.querySelector("[data-plain]").hidden = true; // what is chosen or dropped goes out at once
    const input = form.querySelector("input[type=file]");
    form.addEventListener("submit", (event) => {
      if (!input.files.length) return;
      event.preventDefault();
      upload(form, input.files[0]);
    });
    input.addEventListener("change", () => { if (input.files.length) upload(form, input.files[0]); });
    for (const name of ["dragenter", "dragover"]) {
      zone.addEventListener(name, (event) => { event.preventDefault(); zone.classList.add("over"); });
    }
    for (const name of ["dragleave", "drop"]) zone.addEventListener(name, () => zone.classList.remove("over"));
    zone.addEventListener("drop", (event) => {
      event.preventDefault();
      const [file] = event.dataTransfer.files;
      if (file) upload(form, file);
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
    window.addEventListener("pagehide", () => source.close());
  }
  async function again(words) {
    if (document.querySelector("dialog[open]")) { setTimeout(again, 1000, words); return; }
    const focused = document.activeElement?.id;
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
      if (!answer.ok || answer.redirected) { location.reload(); return; }
      const fresh = parse(await answer.text()).getElementById("main");
      const main = document.getElementById("main");
      main.replaceChildren(...fresh.childNodes);
      start(main);
      begin();
      if (focused) document.getElementById(focused)?.focus();
      if (words) say(words);
    } catch {
      setTimeout(again, 2000, words); // the network is away; the next try may find it
    }
  }

  // ---- [data-soft]: links and forms that stay on the page fetch it and replace this element only ----
  async function soft(element, address, { push = true } = {}) {
    element.classList.add("busy");
    try {
      const answer = await fetch(address, { headers: { Accept: "text/html" } });
      const fresh = answer.ok && parse(await answer.text()).getElementById(element.id);
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
      location.assign(address);
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
