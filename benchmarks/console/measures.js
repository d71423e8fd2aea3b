// Measures a page from inside: when conditions first hold, how long the page takes from an input to
// the end of the next frame, the time between frames, and when marked names appear.
(() => {
  const measured = { first: {}, inputs: [], frames: [], sightings: {}, reached_ms: null };
  window.measured = measured;
  const one = selector => document.querySelector(selector) !== null;
  // the charts in the window have their canvas: the first one without is below it
  const areDrawn = () => {
    const empty = document.querySelector(".figure:not(:has(canvas))");
    return empty === null || empty.getBoundingClientRect().top > innerHeight;
  };
  const CONDITIONS = {
    rows: () => one("[role=grid] .rows [role=row]"),
    lines: () => one(".log-lines .line-number"),
    charts: () => document.querySelectorAll(".study canvas").length >= 3,
    text: () => one(".cm-content"),
    tabs: () => one("[role=tab]"),
    curves: () => document.querySelectorAll(".figure h2").length === Number(measured.wanted) && areDrawn(),
    hit: () => one(".line.current mark"),
    searched: () => one(".log-count") && !one(".log-count progress") && !one(".log-count [value]"),
    line: () => document.querySelector(".line.current .line-number")?.textContent === measured.wanted,
  };
  let awaited = null, lastInput = 0;
  window.awaitCondition = name => {
    const [condition, wanted] = name.split(" ");
    Object.assign(measured, { wanted, reached_ms: null });
    awaited = CONDITIONS[condition];
    lastInput = performance.now();
  };
  const look = () => {
    for (const name of ["rows", "lines", "charts", "text", "tabs"]) {
      if (!(name in measured.first) && CONDITIONS[name]()) measured.first[name] = performance.now();
    }
    if (awaited?.()) {
      measured.reached_ms = performance.now() - lastInput;
      awaited = null;
    }
  };
  const MARKED = /seen-\d+/g;
  const watch = changes => {
    look();
    if (!measured.isWatching) return;
    for (const { target, addedNodes } of changes) {
      for (const node of [target, ...addedNodes]) {
        for (const word of (node.textContent ?? "").slice(0, 4000).match(MARKED) ?? []) {
          measured.sightings[word] ??= performance.timeOrigin + performance.now();
        }
      }
    }
  };
  new MutationObserver(watch).observe(document, {
    childList: true, subtree: true, characterData: true, attributes: true, attributeFilter: ["class"],
  });
  for (const kind of ["keydown", "click", "input", "pointermove"]) {
    addEventListener(kind, event => {
      const began = event.timeStamp;
      if (kind === "keydown" || kind === "click") lastInput = began;
      requestAnimationFrame(() => {
        const channel = new MessageChannel();
        channel.port1.onmessage = () => measured.inputs.push(performance.now() - began);
        channel.port2.postMessage(0);
      });
    }, { capture: true, passive: true });
  }
  window.measureFrames = isOn => {
    measured.isCounting = isOn;
    if (!isOn) return;
    let last = 0;
    const count = now => {
      if (last) measured.frames.push(now - last);
      last = now;
      if (measured.isCounting) requestAnimationFrame(count);
    };
    requestAnimationFrame(count);
  };
})();
