(() => {
  "use strict";
  // Without scripts all records stand below the table and names link to them.
  document.documentElement.classList.add("scripted");

  const filters = document.querySelector(".filters");
  const rows = [...document.querySelectorAll("#table-leaderboard tbody tr")];
  const none = document.querySelector("#table-leaderboard .none");
  const fields = [...filters.querySelectorAll("[data-field]")];
  function filter() {
    let shown = 0;
    for (const row of rows) {
      row.hidden = !fields.every(({ dataset: { field }, value }) => field === "name"
        ? row.dataset.name.toLowerCase().includes(value.trim().toLowerCase())
        : !value || row.dataset[field] === value);
      shown += !row.hidden;
    }
    none.hidden = shown > 0;
    filters.querySelector("output").textContent = `${shown} of ${rows.length} rows`;
  }
  for (const kind of ["input", "change"]) filters.addEventListener(kind, filter);
  filters.addEventListener("submit", (event) => event.preventDefault());
  filters.hidden = false;
  filter();

  // A record moves into the drawer and back, so that its identifiers stay unique.
  const drawer = document.getElementById("drawer");
  const body = drawer.querySelector("div");
  let place = null;
  function restore() {
    const record = body.firstElementChild;
    if (record) place.replaceWith(record);
    place = null;
  }
  function open(id) {
    const record = document.getElementById(id);
    if (!record || !record.classList.contains("record") || body.contains(record)) return;
    restore();
    place = document.createComment(id);
    record.replaceWith(place);
    body.append(record);
    if (!drawer.open) drawer.showModal();
    drawer.scrollTop = 0;
    record.focus({ preventScroll: true });
  }
  function follow() { open(location.hash.slice(1)); }
  drawer.addEventListener("close", () => {
    restore();
    history.replaceState(null, "", location.pathname + location.search);
  });
  drawer.addEventListener("click", (event) => { if (event.target === drawer) drawer.close(); });
  for (const link of document.querySelectorAll('#table-leaderboard a[href^="#row-"]')) {
    link.addEventListener("click", (event) => {
      event.preventDefault();
      const id = link.getAttribute("href").slice(1);
      history.replaceState(null, "", `#${id}`);
      open(id);
    });
  }
  addEventListener("hashchange", follow);
  follow();
})();
