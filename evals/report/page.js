(() => {
  "use strict";
  const tip = document.getElementById("tip");
  let owner = null;

  // The title attribute serves readers without scripts; here it becomes a tooltip that also
  // opens by keyboard and touch.
  function open(button) {
    close();
    owner = button;
    tip.textContent = button.dataset.tip;
    tip.hidden = false;
    button.setAttribute("aria-describedby", "tip");
    place();
  }
  function place() {
    if (!owner) return;
    const at = owner.getBoundingClientRect();
    const size = tip.getBoundingClientRect();
    const left = Math.min(Math.max(8, at.left), Math.max(8, innerWidth - size.width - 8));
    const below = at.bottom + 6;
    const fits = below + size.height < innerHeight - 8;
    tip.style.left = `${left}px`;
    tip.style.top = `${fits ? below : Math.max(8, at.top - size.height - 6)}px`;
  }
  function close() {
    if (owner) owner.removeAttribute("aria-describedby");
    owner = null;
    tip.hidden = true;
  }
  for (const button of document.querySelectorAll("button[title]")) {
    button.dataset.tip = button.title;
    button.removeAttribute("title");
    button.addEventListener("focus", () => open(button));
    button.addEventListener("blur", close);
    button.addEventListener("pointerenter", (event) => {
      if (event.pointerType === "mouse") open(button);
    });
    button.addEventListener("pointerleave", (event) => {
      if (event.pointerType === "mouse" && document.activeElement !== button) close();
    });
    if (button.classList.contains("num")) button.addEventListener("click", () => open(button));
  }
  document.addEventListener("keydown", (event) => { if (event.key === "Escape") close(); });
  // Focus may scroll the page or the table: the tooltip goes along.
  addEventListener("scroll", place, { capture: true, passive: true });
  addEventListener("resize", place);
  document.addEventListener("pointerdown", (event) => {
    if (owner && !owner.contains(event.target)) close();
  });

  // One number of a table is in the tab order; arrow keys move among the others.
  for (const table of document.querySelectorAll("table")) {
    const numbers = table.querySelectorAll(".num");
    numbers.forEach((button, index) => { button.tabIndex = index ? -1 : 0; });
    table.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key];
      const cell = event.target.closest("td");
      if (!step || !cell || !event.target.classList.contains("num")) return;
      const rows = [...table.tBodies[0].rows];
      const row = rows[rows.indexOf(cell.parentElement) + step[0]];
      const next = row && row.cells[cell.cellIndex + step[1]];
      const button = next && next.querySelector(".num");
      event.preventDefault();
      if (!button) return;
      event.target.tabIndex = -1;
      button.tabIndex = 0;
      button.focus({ preventScroll: true });
      next.scrollIntoView({ block: "nearest", inline: "nearest" });
    });
  }

  // A heading sorts its column, upwards first. Missing numbers stay last, the null band first.
  for (const table of document.querySelectorAll("table")) {
    for (const button of table.querySelectorAll(".sort")) {
      button.addEventListener("click", () => {
        const head = button.closest("th");
        const column = head.cellIndex;
        const ascending = head.getAttribute("aria-sort") !== "ascending";
        for (const other of table.querySelectorAll("thead th")) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", ascending ? "ascending" : "descending");
        const body = table.tBodies[0];
        const fixed = [...body.rows].filter((row) => row.classList.contains("fixed"));
        const moving = [...body.rows].filter((row) => !row.classList.contains("fixed"));
        const keyed = moving.map((row) => {
          const cell = row.cells[column];
          return { row, text: cell.textContent.trim(), value: cell.dataset.v === undefined ? null : cell.dataset.v };
        });
        keyed.sort((a, b) => {
          if (a.value === "" || b.value === "") return (a.value === "") - (b.value === "");
          const order = a.value === null
            ? a.text.localeCompare(b.text, "en", { numeric: true })
            : Number(a.value) - Number(b.value);
          return ascending ? order : -order;
        });
        body.append(...fixed, ...keyed.map((entry) => entry.row));
      });
    }
  }

  // Step through a sample's unmasking.
  for (const box of document.querySelectorAll(".replay")) {
    const data = JSON.parse(box.querySelector("script").textContent);
    const slider = box.querySelector("input");
    const canvas = box.querySelector(".canvas");
    const show = () => {
      const step = Number(slider.value) - 1;
      box.querySelector("output").textContent = slider.value;
      canvas.replaceChildren(...data.canvas[step].map((piece, position) => {
        const span = document.createElement("span");
        span.className = data.names[data.classes[step][position]];
        span.textContent = piece < 0 ? "▁ " : data.vocabulary[piece];
        return span;
      }));
    };
    slider.addEventListener("input", show);
    box.querySelector(".stepper").hidden = false;
    canvas.hidden = false;
    show();
  }
})();
