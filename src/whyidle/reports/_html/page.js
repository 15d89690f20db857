"use strict";
/* Makes the page explorable. Everything it needs stands in the page; without it the page still
   says everything, only the timeline cannot be zoomed. */
(() => {
  const root = document.documentElement;
  const byId = (id) => document.getElementById(id);
  const data = JSON.parse(byId("data").textContent);
  root.classList.add("js");

  function seconds(ns) {
    if (!ns) return "0 s";
    const [value, unit] = ns >= 1e9 ? [ns / 1e9, "s"] : ns >= 1e6 ? [ns / 1e6, "ms"]
      : ns >= 1e3 ? [ns / 1e3, "µs"] : [ns, "ns"];
    return `${value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2)} ${unit}`;
  }

  function showTip(tip, host, text, x, y) {
    tip.hidden = !text;
    if (!text) return;
    if (tip.textContent !== text) tip.textContent = text;
    const left = Math.min(x + 14, host.clientWidth - tip.offsetWidth - 8);
    tip.style.left = `${Math.max(4, left)}px`;
    tip.style.top = `${y + 18}px`;
  }

  /* -- theme ------------------------------------------------------------------------------- */

  const redraws = [];
  byId("theme").addEventListener("click", () => {
    const dark = root.dataset.theme
      ? root.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
    redraws.forEach((redraw) => redraw());
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
    redraws.forEach((redraw) => redraw());
  });

  /* -- timeline ---------------------------------------------------------------------------- */

  function timeline(host, picture) {
    const svg = host.querySelector("svg");
    const tip = byId("tip");
    const canvas = document.createElement("canvas");
    const pen = canvas.getContext("2d");
    if (!pen) return;
    canvas.setAttribute("aria-hidden", "true");
    svg.style.display = "none";
    host.insertBefore(canvas, tip);

    const whole = picture.duration;
    const AXIS = 20, NAME = 16, SPACE = 7;
    let from = 0, to = whole, hover = null, moved = false;
    let top = AXIS, strong = "#000";
    const lanes = picture.lanes.map((lane) => {
      const placed = { ...lane, top: top + NAME };
      top += NAME + lane.height + SPACE;
      return placed;
    });
    const height = top;
    const width = () => canvas.clientWidth || 1;
    const toX = (ns) => ((ns - from) / (to - from)) * width();
    const toTime = (x) => from + (x / width()) * (to - from);

    const inks = picture.groups.map(({ colour }) => {
      const [r, g, b] = [1, 3, 5].map((i) => {
        const v = parseInt(colour.slice(i, i + 2), 16) / 255;
        return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
      });
      return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000000" : "#ffffff";
    });

    let queued = false;
    function draw() {
      if (queued) return;
      queued = true;
      requestAnimationFrame(() => { queued = false; paint(); });
    }

    function paint() {
      const ratio = devicePixelRatio || 1;
      const w = width();
      canvas.style.height = `${height}px`;
      canvas.width = Math.round(w * ratio);
      canvas.height = Math.round(height * ratio);
      pen.setTransform(ratio, 0, 0, ratio, 0, 0);
      pen.textBaseline = "middle";
      const { color: soft, borderTopColor: line, caretColor: ink } = getComputedStyle(canvas);
      strong = ink;
      axis(w, soft, line);
      shadeLost(w);
      for (const lane of lanes) paintLane(lane, w, soft);
      root.dataset.drawn = "1";
    }

    function axis(w, soft, line) {
      pen.font = "11px system-ui, sans-serif";
      const span = to - from;
      const rough = span / Math.max(2, Math.floor(w / 130));
      const power = 10 ** Math.floor(Math.log10(rough));
      const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough);
      for (let t = Math.ceil(from / step) * step; t <= to; t += step) {
        const x = toX(t);
        pen.fillStyle = line;
        pen.fillRect(Math.round(x), 0, 1, height);
        pen.fillStyle = soft;
        if (x < w - 44) pen.fillText(seconds(t), x + 4, 8);
      }
    }

    /* what was lost casts its colour over the lanes below it */
    function shadeLost(w) {
      const lost = lanes.find((lane) => lane.kind === "gap");
      if (!lost) return;
      pen.globalAlpha = 0.13;
      for (const [start, length, , group, , filled] of lost.bars) {
        const [x, end] = [toX(start), toX(start + length)];
        if (end < 0 || x > w || end - x < 3 || filled < 80) continue;
        pen.fillStyle = picture.groups[group].colour;
        pen.fillRect(x, lost.top + lost.height, end - x, height - lost.top - lost.height);
      }
      pen.globalAlpha = 1;
    }

    function paintLane(lane, w, soft) {
      pen.font = "11px system-ui, sans-serif";
      pen.fillStyle = soft;
      pen.fillText(lane.name, 0, lane.top - 8);
      const { bars } = lane;
      for (let i = firstEndingAfter(bars, from); i < bars.length && bars[i][0] < to; i++) {
        paintBar(lane, bars[i], w);
      }
    }

    function paintBar(lane, bar, w) {
      const [start, length, label, group, , filled] = bar;
      const x = Math.max(-1, toX(start)), end = Math.min(w + 1, toX(start + length));
      const wide = Math.max(end - x - (end - x > 4 ? 1 : 0), 0.6);
      pen.fillStyle = picture.groups[group].colour;
      const dim = hover && hover[2] !== label;
      const tall = (lane.height * filled) / 100;
      if (filled < 95) {
        pen.globalAlpha = (0.04 + 0.0026 * filled) * (dim ? 0.4 : 1);
        pen.fillRect(x, lane.top, wide, lane.height);
      }
      pen.globalAlpha = dim ? 0.4 : 1;
      pen.fillRect(x, lane.top + lane.height - tall, wide, tall);
      pen.globalAlpha = 1;
      if (hover === bar) {
        pen.strokeStyle = strong;
        pen.lineWidth = 1.5;
        pen.strokeRect(x, lane.top, wide, lane.height);
      }
      if (wide > 46 && filled >= 95) {
        pen.save();
        pen.beginPath();
        pen.rect(x, lane.top, wide - 4, lane.height);
        pen.clip();
        pen.fillStyle = inks[group];
        pen.fillText(picture.labels[label], Math.max(x, 0) + 5, lane.top + lane.height / 2 + 0.5);
        pen.restore();
      }
    }

    function firstEndingAfter(bars, time) {
      let low = 0, high = bars.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (bars[middle][0] + bars[middle][1] < time) low = middle + 1; else high = middle;
      }
      return low;
    }

    function at(x, y) {
      const lane = lanes.find((l) => y >= l.top - 2 && y <= l.top + l.height + 2);
      if (!lane) return [null, null];
      const time = toTime(x), near = ((to - from) / width()) * 2;
      let best = null, distance = near;
      for (let i = firstEndingAfter(lane.bars, time - near); i < lane.bars.length; i++) {
        const [start, length] = lane.bars[i];
        if (start > time + near) break;
        const off = Math.max(start - time, time - start - length, 0);
        if (off <= distance) { best = lane.bars[i]; distance = off; }
        if (off === 0) break;
      }
      return [best, lane];
    }

    function describe(bar, lane) {
      const [start, length, label, group, members, filled] = bar;
      const name = picture.labels[label], title = picture.groups[group].title;
      const many = members > 1
        ? `${members} short ones, mostly ${name}\n${seconds((length * filled) / 100)} within ${seconds(length)}`
        : `${name}\n${seconds(length)}`;
      const share = (length * filled) / 100 / whole;
      return `${title} · ${lane.name}\n${many} · ${share < 0.001 ? "<0.1" : (share * 100).toFixed(1)}% of the step\nat ${seconds(start)}`;
    }

    function point(bar, lane, x, y) {
      if (hover !== bar) { hover = bar; draw(); }
      showTip(tip, host, bar && describe(bar, lane), x, y);
    }

    function view(start, end) {
      const span = Math.min(whole, Math.max(end - start, Math.max(200, whole / 1e5)));
      from = Math.max(0, Math.min(start + (end - start) / 2 - span / 2, whole - span));
      to = from + span;
      draw();
    }
    function zoom(factor, x = width() / 2) {
      const centre = toTime(x);
      view(centre - (centre - from) * factor, centre + (to - centre) * factor);
    }
    const pan = (part) => { const by = part * (to - from); view(from + by, to + by); };

    function nextLost(direction) {
      const lost = lanes.find((lane) => lane.kind === "gap");
      if (!lost) return;
      const big = lost.bars.filter((bar) => bar[1] * bar[5] / 100 > whole / 200);
      if (!big.length) return;
      const index = big.indexOf(hover);
      const bar = big[(index + direction + big.length + (index < 0 && direction < 0 ? 1 : 0)) % big.length];
      view(bar[0] - bar[1] * 1.5, bar[0] + bar[1] * 2.5);
      point(bar, lost, toX(bar[0] + bar[1] / 2), lost.top + lost.height);
    }

    const fingers = new Map();
    canvas.addEventListener("pointerdown", (event) => {
      fingers.set(event.pointerId, event.offsetX);
      canvas.setPointerCapture(event.pointerId);
      moved = false;
    });
    canvas.addEventListener("pointermove", (event) => {
      const before = fingers.get(event.pointerId);
      if (before === undefined) {
        const [bar, lane] = at(event.offsetX, event.offsetY);
        point(bar, lane, event.offsetX, event.offsetY);
        return;
      }
      const others = [...fingers].filter(([id]) => id !== event.pointerId);
      if (others.length) {
        const anchor = others[0][1];
        const was = Math.abs(before - anchor), now = Math.abs(event.offsetX - anchor);
        if (was > 8 && now > 8) zoom(was / now, anchor);
      } else {
        const by = toTime(before) - toTime(event.offsetX);
        if (Math.abs(event.offsetX - before) > 0) { moved = true; view(from + by, to + by); }
        canvas.classList.add("moving");
      }
      fingers.set(event.pointerId, event.offsetX);
    });
    const lift = (event) => {
      fingers.delete(event.pointerId);
      canvas.classList.remove("moving");
      if (!moved && event.type === "pointerup") {
        const [bar, lane] = at(event.offsetX, event.offsetY);
        point(bar, lane, event.offsetX, event.offsetY);
      }
    };
    canvas.addEventListener("pointerup", lift);
    canvas.addEventListener("pointercancel", lift);
    canvas.addEventListener("pointerleave", () => { if (!fingers.size) point(null); });
    canvas.addEventListener("dblclick", (event) => zoom(0.4, event.offsetX));
    canvas.addEventListener("wheel", (event) => {
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        event.preventDefault();
        pan(event.deltaX / width());
      } else if (event.ctrlKey || event.metaKey || document.activeElement === host) {
        event.preventDefault();
        zoom(1.0018 ** event.deltaY, event.offsetX);
      }
    }, { passive: false });
    const keys = {
      ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15), a: () => pan(-0.15), d: () => pan(0.15),
      "+": () => zoom(0.7), "=": () => zoom(0.7), w: () => zoom(0.7),
      "-": () => zoom(1.4), s: () => zoom(1.4), 0: () => view(0, whole), Home: () => view(0, whole),
      n: () => nextLost(1), p: () => nextLost(-1), Escape: () => point(null),
    };
    host.addEventListener("keydown", (event) => {
      const act = keys[event.key] || keys[event.key.toLowerCase()];
      if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      act();
    });
    document.querySelectorAll("[data-zoom]").forEach((button) => button.addEventListener("click", () => {
      ({ in: () => zoom(0.5), out: () => zoom(2), all: () => view(0, whole) })[button.dataset.zoom]();
    }));
    new ResizeObserver(draw).observe(host);
    redraws.push(draw);
    paint();
  }

  /* -- heat map ---------------------------------------------------------------------------- */

  function heat(host, ranks) {
    const tip = host.querySelector(".tip");
    const columns = Math.max(...ranks.cells.map((row) => row.length));
    const percent = (v) => `${(v / 10).toFixed(1)}%`;
    host.addEventListener("pointermove", (event) => {
      const svg = host.querySelector("svg");
      const box = svg.getBoundingClientRect(), view = svg.viewBox.baseVal;
      const x = view.x + ((event.clientX - box.left) / box.width) * view.width;
      const y = ((event.clientY - box.top) / box.height) * view.height;
      const row = Math.floor(y / ranks.height), column = Math.floor(x / ((view.width + view.x) / columns));
      const cell = x >= 0 ? ranks.cells[row]?.[column] : undefined;
      const lines = cell && [`${ranks.buckets[0]} ${percent(cell[0])}`, `${ranks.buckets[cell[1]]} ${percent(cell[2])}`];
      const frame = host.getBoundingClientRect();
      showTip(tip, host, cell && [`${ranks.names[row]}, step ${column + 1}`, ...lines].join("\n"),
        event.clientX - frame.left, event.clientY - frame.top);
    });
    host.addEventListener("pointerleave", () => showTip(tip, host, null));
  }

  addEventListener("beforeprint", () => {
    document.querySelectorAll("details").forEach((part) => { part.open = true; });
  });

  if (data.ranks && byId("heat")) heat(byId("heat"), data.ranks);
  if (data.timeline && byId("timeline")) timeline(byId("timeline"), data.timeline);
  root.dataset.drawn = "1";
})();
