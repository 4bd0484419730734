'use strict';
// The page: figures one after another, the theme, the tables behind the figures, printing, pictures.
(() => {
  const root = document.documentElement;
  const specs = JSON.parse(document.getElementById('figures').textContent);
  const views = new Map();
  const wanted = location.hash.startsWith('#figure=') ? decodeURIComponent(location.hash.slice(8)) : null;

  function view(spec) {
    if (!views.has(spec.id)) views.set(spec.id, new CdtFigure(document.getElementById(`figure-${spec.id}`), spec));
    return views.get(spec.id);
  }
  function redraw() {
    for (const each of views.values()) each.draw();
  }

  // Light and dark as the system says, until the reader says otherwise.
  const system = matchMedia('(prefers-color-scheme: dark)');
  const button = document.getElementById('theme');
  let chosen = wanted === null ? null : 'light';
  function apply(theme) {
    const before = root.dataset.theme;
    root.dataset.theme = theme;
    button.textContent = theme === 'dark' ? 'Light' : 'Dark';
    button.setAttribute('aria-label', theme === 'dark' ? 'Use light colours' : 'Use dark colours');
    if (before !== theme) redraw();
  }
  const theme = () => chosen || (system.matches ? 'dark' : 'light');
  apply(theme());
  button.hidden = false;
  button.addEventListener('click', () => {
    chosen = root.dataset.theme === 'dark' ? 'light' : 'dark';
    apply(chosen);
  });
  system.addEventListener('change', () => apply(theme()));

  // Paper is white, shows every figure, and what is folded.
  let opened = [];
  addEventListener('beforeprint', () => {
    apply('light');
    opened = [...document.querySelectorAll('details.section:not([open])')];
    for (const each of opened) each.open = true;
    for (const spec of specs) view(spec).chart.resize();
  });
  addEventListener('afterprint', () => {
    for (const each of opened) each.open = false;
    apply(theme());
    for (const each of views.values()) each.chart.resize();
  });

  function fill(place, spec) {
    const {columns, rows} = CdtData.table(spec);
    const table = document.createElement('table');
    const row = (cells, tag) => {
      const line = document.createElement('tr');
      for (const value of cells) {
        const cell = document.createElement(tag);
        const number = typeof value === 'number' || value === null;
        cell.textContent = value === null ? '' : String(value);
        if (number) cell.className = 'n';
        if (tag === 'th') cell.scope = 'col';
        line.append(cell);
      }
      return line;
    };
    const caption = table.createCaption();
    caption.textContent = spec.title;
    table.createTHead().append(row(columns, 'th'));
    table.createTBody().append(...rows.map((cells) => row(cells, 'td')));
    place.replaceChildren(table);
  }
  for (const spec of specs) {
    const details = document.querySelector(`#figure-${spec.id} details.data`);
    details.addEventListener('toggle', () => {
      if (details.open && !details.querySelector('table')) fill(details.querySelector('.scroll'), spec);
    });
  }

  if (wanted !== null) {
    const spec = specs.find((each) => each.id === wanted);
    const keep = spec && document.getElementById(`figure-${wanted}`);
    document.body.classList.add('single');
    if (keep) document.body.replaceChildren(keep);
    if (spec) view(spec);
    return;
  }
  // One figure at a time, so that the page answers meanwhile.
  const queue = [...specs];
  (function next() {
    const spec = queue.shift();
    if (spec) {
      view(spec);
      setTimeout(next);
    } else {
      root.dataset.ready = 'true';
    }
  })();
  globalThis.cdtReport = {specs, views, view};
})();
