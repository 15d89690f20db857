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
})();
