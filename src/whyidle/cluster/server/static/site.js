"use strict";
/* Light or dark, and pages that follow what they show. Without it every page still says
   everything, as of the moment at which it was opened. */
(() => {
  const root = document.documentElement;
  const stored = () => { try { return localStorage.getItem("theme"); } catch { return null; } };
  if (stored()) root.dataset.theme = stored();

  const report = document.getElementById("data");  // its own script changes the theme there
  document.getElementById("theme").addEventListener("click", () => {
    if (!report) {
      const dark = root.dataset.theme
        ? root.dataset.theme === "dark"
        : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
    }
    try { localStorage.setItem("theme", root.dataset.theme); } catch { /* private window */ }
  });

  /* -- live pages ------------------------------------------------------------------------------ */

  const main = document.getElementById("main");
  if (!("live" in main.dataset)) return;
  const note = document.createElement("p");
  note.className = "stream";
  note.setAttribute("role", "status");
  document.getElementById("theme").before(note);

  const say = (text, broken) => {
    note.textContent = text;
    note.className = broken ? "stream broken" : "stream";
  };
  const look = async () => {
    try {
      const answer = await fetch(location.href);
      if (!answer.ok) return say("not live: load the page again", true);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const next = page.getElementById("main");
      const opened = [...main.querySelectorAll("details")].map((one) => one.open);
      main.replaceChildren(...next.childNodes);
      main.querySelectorAll("details").forEach((one, i) => { one.open = opened[i] ?? one.open; });
      if (!("live" in next.dataset)) return say("ended", false);
      say("● live", false);
    } catch {
      say("connection lost, trying again …", true);
    }
    setTimeout(look, 2000);
  };
  look();
})();
