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
  if (!main.dataset.events) return;
  const note = document.createElement("p");
  note.className = "stream";
  note.setAttribute("role", "status");
  document.getElementById("theme").before(note);

  const source = new EventSource(main.dataset.events);
  source.addEventListener("open", () => { note.textContent = "● live"; note.className = "stream"; });
  source.addEventListener("error", () => {
    note.className = "stream broken";
    note.textContent = source.readyState === EventSource.CLOSED
      ? "not live: load the page again" : "connection lost, trying again …";
  });
  source.addEventListener("main", (event) => {
    const opened = [...main.querySelectorAll("details")].map((one) => one.open);
    main.innerHTML = JSON.parse(event.data);  // made by the server's templates, which escape
    main.querySelectorAll("details").forEach((one, i) => { one.open = opened[i] ?? one.open; });
  });
  source.addEventListener("over", () => {
    source.close();
    note.textContent = "ended";
  });
})();
