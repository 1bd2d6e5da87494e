// The pages are complete without this script. It adds two things: buttons that copy a key or a
// command line, and a newer page every few seconds while somebody looks.
"use strict";
(() => {
  const EVERY = 5000;

  function addButtons(root) {
    for (const code of root.querySelectorAll("code[data-copy]")) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "copy";
      button.textContent = "Copy";
      button.setAttribute("aria-label", "Copy " + code.textContent);
      button.addEventListener("click", async () => {
        let done = true;
        try {
          await navigator.clipboard.writeText(code.textContent);
        } catch {
          // Without permission the text is selected, to be copied by hand.
          getSelection().selectAllChildren(code);
          done = false;
        }
        button.textContent = done ? "Copied" : "Selected";
        setTimeout(() => { button.textContent = "Copy"; }, 2000);
      });
      code.after(button);
    }
  }

  // What the reader has opened, selected or focused stays as it is.
  function isBusy(main) {
    const selection = getSelection();
    const selects = !selection.isCollapsed && main.contains(selection.anchorNode);
    return selects || main.contains(document.activeElement) && document.activeElement !== main;
  }

  function say(text) {
    document.getElementById("updates").textContent = text;
  }

  async function refresh() {
    const main = document.getElementById("main");
    if (document.hidden || isBusy(main)) return;
    try {
      const response = await fetch(location.href, { headers: { accept: "text/html" } });
      if (response.status === 401) return say("The session has ended: open the address in the terminal.");
      if (!response.ok) return say("The page could not be read again: HTTP " + response.status + ".");
      const page = new DOMParser().parseFromString(await response.text(), "text/html");
      if (isBusy(main)) return;
      const open = [...main.querySelectorAll("details[open]")].map((it) => it.id);
      const fresh = page.getElementById("main");
      for (const id of open) if (id) fresh.querySelector("#" + id)?.setAttribute("open", "");
      main.replaceChildren(...fresh.childNodes);
      document.getElementById("used").textContent = page.getElementById("used").textContent;
      addButtons(main);
      say("Updated at " + new Date().toLocaleTimeString() + "; again every " + EVERY / 1000 + " s.");
    } catch {
      say("The console does not answer: is its command still running?");
    }
  }

  addButtons(document);
  if (document.body.hasAttribute("data-refresh")) setInterval(refresh, EVERY);
})();
