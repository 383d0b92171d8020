// What HTML and htmx do not do by themselves. Without this file the page still shows and changes everything.
"use strict";
(() => {
  const byId = (id) => document.getElementById(id);

  // A part in which somebody types, or has something open, is not replaced under their hands; it is when they are done.
  const busy = (part) =>
    (part.id === "mine" && part.querySelector("details[open]")) ||
    (part.contains(document.activeElement) && document.activeElement.matches("input, select, textarea"));
  const late = new Set();
  const spared = (event, part) => {
    if ((part.id === "mine" || part.id === "warned") && busy(part)) {
      event.preventDefault();
      late.add(part);
    }
  };
  document.addEventListener("htmx:beforeRequest", (event) => spared(event, event.detail.elt));
  document.addEventListener("htmx:beforeSwap", (event) => spared(event, event.target)); // opened while it was on its way
  const catchUp = () => {
    for (const part of late) {
      if (!document.contains(part)) late.delete(part);
      else if (!busy(part)) {
        late.delete(part);
        window.htmx.ajax("GET", part.getAttribute("hx-get"), { target: part, swap: "innerHTML" });
      }
    }
  };
  document.addEventListener("focusout", () => setTimeout(catchUp, 50));
  document.addEventListener("toggle", () => setTimeout(catchUp, 50), true);

  // What fails when a part asks for itself leaves the part as it is: no error, and no proxy's page, stands in its place.
  document.addEventListener("htmx:beforeSwap", (event) => {
    if (event.detail.xhr.status >= 400 && event.detail.requestConfig.verb === "get") event.detail.shouldSwap = false;
  });

  // Warnings and troubles are read out when they come or change, not each time that their part is made anew.
  const heard = (place, part) => {
    const words = part ? [...part.querySelectorAll("[data-say]")].map((one) => one.dataset.say || one.textContent.trim()) : [];
    if (place && place.textContent !== words.join(" ")) place.textContent = words.join(" ");
  };
  for (const [place, part] of [["heard", "age"], ["alarm", "warned"]].map((ids) => ids.map(byId))) {
    if (!part) continue;
    new MutationObserver(() => heard(place, part)).observe(part, { childList: true, subtree: true });
    heard(place, part);
  }

  // What was said stands on top, where eyes and screen readers find it; the form for a new booking is empty again.
  document.addEventListener("htmx:afterSwap", (event) => {
    if (event.target.id === "said") event.target.focus();
    if (event.target.id === "calendar") tell(document.activeElement.closest(".bar > *"));
  });
  document.addEventListener("did-reserve", () => byId("book")?.querySelector("form").reset());

  // The stream: whether it is open is said, since what is shown may be old without it.
  let lost = 0;
  const show = (gone) => {
    const told = byId("lost");
    if (told) told.hidden = !gone;
  };
  document.addEventListener("htmx:sseOpen", () => {
    clearTimeout(lost);
    lost = 0;
    show(false);
  });
  document.addEventListener("htmx:sseError", () => {
    lost = lost || setTimeout(() => show(true), 2000);
  });

  // The calendar: what a bar says in words, arrows from bar to bar, and a click on a free time books from there.
  const tell = (bar) => {
    const told = byId("bar-told");
    if (told && bar) told.textContent = bar.getAttribute("aria-label");
  };
  const bars = (line) => [...line.querySelectorAll(".bar > *")];
  const step = (bar, key) => {
    const line = bar.closest(".line");
    const mine = bars(line);
    const at = mine.indexOf(bar);
    if (key === "ArrowRight") return mine[at + 1];
    if (key === "ArrowLeft") return mine[at - 1];
    if (key === "Home") return mine[0];
    if (key === "End") return mine[mine.length - 1];
    const lines = [...document.querySelectorAll(".line")].filter((one) => bars(one).length);
    const next = lines[lines.indexOf(line) + (key === "ArrowDown" ? 1 : -1)];
    if (!next) return null;
    const x = bar.getBoundingClientRect().left;
    const far = (one) => Math.abs(one.getBoundingClientRect().left - x);
    return bars(next).reduce((best, one) => (far(one) < far(best) ? one : best));
  };
  document.addEventListener("mouseover", (event) => {
    const bar = event.target.closest?.(".bar > *");
    if (bar && !bar.title) bar.title = bar.getAttribute("aria-label");
  });
  document.addEventListener("focusin", (event) => tell(event.target.closest?.(".bar > *")));
  document.addEventListener("keydown", (event) => {
    const bar = event.target.closest?.(".bar > *");
    if (!bar || !["ArrowRight", "ArrowLeft", "ArrowUp", "ArrowDown", "Home", "End"].includes(event.key)) return;
    event.preventDefault();
    step(bar, event.key)?.focus();
  });
  document.addEventListener("click", (event) => {
    const bar = event.target.closest?.(".bar > *");
    if (bar) return tell(bar);
    const track = event.target.closest?.(".line .track");
    const calendar = track && track.closest(".calendar");
    if (!calendar || !byId("to-book")) return;
    const box = track.getBoundingClientRect();
    const start = Number(calendar.dataset.start);
    const at = start + ((event.clientX - box.left) / box.width) * (Number(calendar.dataset.end) - start);
    const local = Math.ceil((at + Number(calendar.dataset.offset)) / 1800) * 1800;
    location.href = `/mine?at=${new Date(local * 1000).toISOString().slice(0, 16)}#book`;
  });
})();
