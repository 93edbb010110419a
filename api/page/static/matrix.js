// The matrix of a group: its apps across, its clusters down, and above it a map of all cells for those groups whose clusters do not
// fit on a screen. A change touches the cells that it is about, and nothing else.

import { Chips } from './chips.js';
import { fill, h, icon, text } from './dom.js';
import { Rows } from './rows.js';
import { count, rank, stateNames, stateOfCell, states, sum } from './words.js';

const rowHeight = 32;
const mapFrom = 40; // clusters

/** Matrix keeps the cells of a group, and shows them. open is called with (app, cluster) of a cell that is to be looked at. */
export class Matrix {
  apps = [];
  known = false; // whether it has been told anything
  #cells = new Map(); // by app: by cluster: the cell
  #clusters = new Map(); // by name: { name, cells: [by app], worst, stamp }
  #counts = Object.fromEntries(stateNames.map((s) => [s, 0]));
  #words = '';
  #worstFirst = false;
  #sorting = 0;
  #href;

  constructor(life, { href }) {
    this.life = life;
    this.#href = href;
    this.rows = new Rows(life, { height: rowHeight, label: 'Clusters', key: (c) => c.name, draw: (row, c) => this.#drawRow(row, c) });
    this.#chips = new Chips(states, 'Show only cells that are', () => { this.#showChips(); this.arrange(); });
    const search = h('input', { type: 'search', class: 'search', placeholder: 'Find clusters', 'aria-label': 'Find clusters by name', on: { input: () => { this.#words = search.value.trim().toLowerCase(); this.arrange(); } } });
    const worst = h('button', { type: 'button', 'aria-pressed': 'false', on: { click: () => { this.#worstFirst = !this.#worstFirst; worst.setAttribute('aria-pressed', String(this.#worstFirst)); this.arrange(); } } }, 'Worst first');
    this.#head = h('div', { class: 'row head', role: 'row' });
    this.#table = h('div', { class: 'matrix', role: 'table', 'aria-label': 'Apps by cluster' }, h('div', { role: 'rowgroup' }, this.#head), this.rows.element);
    this.#none = h('p', { class: 'empty', hidden: true });
    this.#map = new Overview(life, (app, cluster) => { location.hash = href(app, cluster); });
    this.element = h('div', {}, h('div', { class: 'tools' }, this.#chips.element, h('span', { class: 'grow' }), search, worst), this.#map.element, this.#table, this.#none);
    life.listen(this.#table, 'keydown', (e) => this.#keys(e));
  }

  #chips; #head; #table; #none; #map;

  /** take has the matrix show a whole document. */
  take(doc) {
    const before = this.apps;
    this.known = true;
    this.#cells = new Map();
    for (const a of doc.apps ?? []) this.#cells.set(a.name, new Map(a.clusters.map((c) => [`${c.clusterProvider}+${c.cluster}`, this.#cell(c)])));
    this.apps = [...this.#cells.keys()].sort();
    if (before.join() !== this.apps.join()) this.#columns();
    this.#gather();
  }

  #cell(c) {
    delete c.resources;
    c.state = stateOfCell(c);
    return c;
  }

  /** change applies a change; it returns the cells that are others now, as app/cluster. */
  change(doc) {
    const touched = [];
    let anew = false;
    for (const a of doc.apps ?? []) {
      let of = this.#cells.get(a.name);
      if (!of) {
        this.#cells.set(a.name, of = new Map());
        anew = true;
      }
      for (const c of a.clusters) {
        const name = `${c.clusterProvider}+${c.cluster}`;
        const was = of.get(name);
        const is = this.#cell(c);
        of.set(name, is);
        touched.push(`${a.name}/${name}`);
        const row = this.#clusters.get(name);
        if (!was || !row) { anew = true; continue; }
        this.#counts[was.state]--;
        this.#counts[is.state]++;
        const at = this.apps.indexOf(a.name);
        row.cells[at] = is;
        row.stamp++;
        row.worst = Math.min(...Array.from(row.cells, (x) => (x ? rank[x.state] : stateNames.length))) /* an app may have none there: a hole */;
        this.#map.one(at, row);
      }
    }
    for (const r of doc.removed ?? []) {
      if (r.resource) continue;
      const name = `${r.clusterProvider}+${r.cluster}`;
      this.#cells.get(r.app)?.delete(name);
      if (!this.#cells.get(r.app)?.size) this.#cells.delete(r.app);
      touched.push(`${r.app}/${name}`);
      anew = true;
    }
    if (anew) {
      const before = this.apps.join();
      this.apps = [...this.#cells.keys()].sort();
      if (before !== this.apps.join()) this.#columns();
      this.#gather();
    } else if (touched.length) {
      this.#showChips();
      if (this.#chips.only || this.#worstFirst) this.#arrangeSoon();
      else this.rows.soon();
    }
    return touched;
  }

  get(app, cluster) { return this.#cells.get(app)?.get(cluster); }

  #gather() {
    const old = this.#clusters;
    this.#clusters = new Map();
    for (const s of stateNames) this.#counts[s] = 0;
    this.apps.forEach((app, at) => {
      for (const [name, cell] of this.#cells.get(app)) {
        let row = this.#clusters.get(name);
        if (!row) this.#clusters.set(name, row = { name, cells: [], worst: stateNames.length, stamp: (old.get(name)?.stamp ?? 0) + 1 });
        row.cells[at] = cell;
        row.worst = Math.min(row.worst, rank[cell.state]);
        this.#counts[cell.state]++;
      }
    });
    this.#showChips();
    this.arrange();
    this.#map.set(this.apps, [...this.#clusters.values()].sort((a, b) => (a.name < b.name ? -1 : 1)));
  }

  #arrangeSoon() {
    this.rows.soon();
    if (this.#sorting) return;
    this.#sorting = setTimeout(() => { this.#sorting = 0; if (!this.life.over) this.arrange(); }, 1000);
  }

  /** arrange puts the clusters in order, and leaves out those that are not asked for. */
  arrange() {
    const { only } = this.#chips;
    let rows = [...this.#clusters.values()];
    if (this.#words) rows = rows.filter((r) => r.name.toLowerCase().includes(this.#words));
    if (only) rows = rows.filter((r) => r.cells.some((c) => c?.state === only));
    rows.sort((a, b) => (this.#worstFirst && a.worst - b.worst) || (a.name < b.name ? -1 : 1));
    this.#table.setAttribute('aria-rowcount', String(rows.length + 1));
    this.#table.hidden = !rows.length;
    this.#none.hidden = rows.length > 0;
    text(this.#none, this.#clusters.size ? 'No cluster is like that now.' : 'Nothing has been put anywhere yet.');
    this.rows.set(rows);
  }

  #showChips() {
    this.#chips.show(this.#counts);
    const words = stateNames.filter((s) => this.#counts[s]).map((s) => `${this.#counts[s]} ${states[s]}`).join(', ');
    this.#map.label(`Map of ${count(this.#clusters.size, 'cluster')} and ${count(this.apps.length, 'app')}: ${words}`);
  }

  #columns() {
    const n = this.apps.length;
    this.#table.style.setProperty('--columns', `minmax(7.5rem, 15rem) repeat(${n}, minmax(1.9rem, 8rem))`);
    this.#table.style.setProperty('--least', `calc(8.1rem + ${n} * (1.9rem + 4px))`); // of their widths, with what is between and beside them
    this.#table.classList.toggle('many', n > 6);
    fill(this.#head, h('span', { role: 'columnheader' }, 'Cluster'), this.apps.map((a) => h('span', { role: 'columnheader', title: a }, a)));
  }

  #drawRow(row, c) {
    const key = this.apps.join();
    if (row.built !== key) {
      const had = row.cells ?? new Map();
      row.cells = new Map(this.apps.map((app) => [app, had.get(app) ?? h('span', { role: 'cell' }, h('a', { class: 'cell' }))]));
      fill(row, h('span', { class: 'name', role: 'rowheader' }), [...row.cells.values()]);
      row.built = key;
    }
    const [provider, name] = c.name.split('+');
    const head = row.firstChild;
    if (head.title !== c.name) { head.title = c.name; fill(head, h('span', { class: 'dim provider' }, `${provider} `), h('span', {}, name)); }
    this.apps.forEach((app, i) => {
      const a = row.children[i + 1].firstChild;
      const cell = c.cells[i];
      const state = cell?.state ?? '';
      const words = cell ? progress(cell) : '';
      const sign = `${c.name} ${state} ${words}`;
      if (a.sign === sign) return;
      a.sign = sign;
      a.hidden = !cell;
      if (!cell) return;
      if (a.className !== `cell is-${state}`) {
        a.className = `cell is-${state}`;
        fill(a, icon(state), h('span', { class: 'n' }));
      }
      text(a.lastChild, words);
      a.setAttribute('aria-label', `${app} on ${c.name}: ${states[state]}${words ? `, ${words}` : ''}`);
      a.title = `${app} on ${c.name}: ${states[state]}`;
      a.href = this.#href(app, c.name);
    });
  }

  /** #keys goes from cell to cell with the arrows. */
  #keys(e) {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[e.key];
    const a = e.target.closest?.('a.cell');
    if (!step || !a) return;
    e.preventDefault();
    const row = a.closest('.row');
    let line = Number(row.getAttribute('aria-rowindex')) - 2;
    let at = [...row.children].indexOf(a.parentElement) - 1;
    do { // an app may have none there: it is beyond that
      line += step[0];
      at += step[1];
    } while (this.rows.at(line) && at >= 0 && at < this.apps.length && !this.rows.at(line).cells[at]);
    this.#go(line, at);
  }

  #go(line, at) {
    if (!this.rows.at(line)?.cells[at]) return;
    const a = this.rows.row(line).children[at + 1].firstChild;
    a.focus({ preventScroll: true });
    a.scrollIntoView({ block: 'nearest', inline: 'nearest' }); // a phone has no room for many apps
  }

  /** go has the keyboard on a cell, if that is shown. */
  go(app, cluster) { this.#go(this.rows.index(cluster), this.apps.indexOf(app)); }
}

/** progress is how many of a cell's resources are where they are to be: of those that are there how many are ready. */
function progress(c) {
  const done = c.deployedCounts ?? {};
  const all = sum(done);
  if (c.state === 'ready' || c.state === 'notready') {
    const of = sum(c.readyCounts);
    return `${c.readyCounts?.Ready ?? 0}/${of}`;
  }
  return c.state === 'gone' ? '' : `${done.Applied ?? 0}/${all}`;
}

/** coloursOf are those of the states: a canvas knows nothing of the style sheet. They are kept, and what is old has none, so the body is asked. */
function coloursOf() {
  const probe = document.body.appendChild(h('i', { hidden: true }));
  const found = {};
  for (const name of [...stateNames, 'page']) {
    probe.style.color = `var(--${name})`;
    found[name] = getComputedStyle(probe).color;
  }
  probe.remove();
  return found;
}

/** Overview is the map: a square for each cell, app by app, on a canvas. What it shows is in the table below, and in its label. */
class Overview {
  #apps = []; #rows = []; #at = new Map(); #all = false; #some = new Map(); #frame = 0; #colours = null; #go;

  constructor(life, go) {
    this.#go = go;
    this.canvas = h('canvas', { role: 'img' });
    this.names = h('div', { class: 'map-names', 'aria-hidden': 'true' });
    this.element = h('div', { class: 'map', hidden: true }, this.names, this.canvas);
    const observer = new ResizeObserver(() => this.#anew());
    observer.observe(this.element);
    life.onEnd(() => { observer.disconnect(); cancelAnimationFrame(this.#frame); });
    const theme = matchMedia('(prefers-color-scheme: dark)');
    life.listen(theme, 'change', () => { this.#colours = null; this.#anew(); });
    const attributes = new MutationObserver(() => { this.#colours = null; this.#anew(); });
    attributes.observe(document.documentElement, { attributes: true, attributeFilter: ['data-theme'] });
    life.onEnd(() => attributes.disconnect());
    life.listen(this.canvas, 'click', (e) => { const c = this.#under(e); if (c?.row.cells[c.at]) go(c.app, c.row.name); });
    life.listen(this.canvas, 'mousemove', (e) => {
      const c = this.#under(e);
      this.canvas.title = c ? `${c.app} on ${c.row.name}: ${states[c.row.cells[c.at]?.state] ?? 'nothing'}` : '';
    });
  }

  label(words) { this.canvas.setAttribute('aria-label', words); }

  set(apps, rows) {
    this.#apps = apps;
    this.#rows = rows;
    this.#at = new Map(rows.map((r, i) => [r, i]));
    this.element.hidden = rows.length < mapFrom;
    this.#anew();
  }

  one(app, row) {
    if (this.element.hidden) return;
    const i = this.#at.get(row);
    if (i === undefined) return;
    this.#some.set(app * this.#rows.length + i, [app, i]);
    this.#soon();
  }

  #anew() { this.#all = true; this.#soon(); }

  #soon() { this.#frame ||= requestAnimationFrame(() => { this.#frame = 0; this.#draw(); }); }

  #layout() {
    const width = Math.max(120, this.element.clientWidth - 104);
    let size = 14;
    let across;
    let down;
    for (; size > 4; size--) {
      across = Math.floor(width / size);
      down = Math.ceil(this.#rows.length / across);
      if (this.#apps.length * (down * size + 6) <= 470) break;
    }
    across = Math.floor(width / size);
    down = Math.ceil(this.#rows.length / across);
    const band = Math.max(down * size + 6, 18);
    this.place = { size, across, band, width, height: band * this.#apps.length };
  }

  #draw() {
    if (this.element.hidden || !this.#rows.length) return;
    const ratio = devicePixelRatio || 1;
    if (this.#all) {
      this.#layout();
      const { width, height, band } = this.place;
      this.canvas.width = Math.round(width * ratio);
      this.canvas.height = Math.round(height * ratio);
      this.canvas.style.width = `${width}px`;
      this.canvas.style.height = `${height}px`;
      fill(this.names, this.#apps.map((a) => { const e = h('span', { title: a }, a); e.style.height = `${band}px`; return e; }));
    }
    const g = this.canvas.getContext('2d');
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    this.#colours ??= coloursOf();
    if (this.#all) {
      for (let app = 0; app < this.#apps.length; app++) for (let i = 0; i < this.#rows.length; i++) this.#cell(g, app, i);
    } else {
      for (const [app, i] of this.#some.values()) this.#cell(g, app, i);
    }
    this.#all = false;
    this.#some.clear();
  }

  /** #cell draws one: what is well is small and quiet, what is not fills its square, and has a shape of its own. */
  #cell(g, app, i) {
    const { size, across, band } = this.place;
    const x = (i % across) * size;
    const y = app * band + Math.floor(i / across) * size;
    const state = this.#rows[i].cells[app]?.state;
    g.fillStyle = this.#colours.page;
    g.fillRect(x, y, size, size);
    if (!state) return;
    g.fillStyle = g.strokeStyle = this.#colours[state];
    const s = size - 1;
    switch (state) {
      case 'failed':
        g.fillRect(x, y, s, s);
        if (size > 6) {
          g.strokeStyle = this.#colours.page;
          g.lineWidth = 1.5;
          g.beginPath(); g.moveTo(x + 2.5, y + 2.5); g.lineTo(x + s - 2.5, y + s - 2.5); g.moveTo(x + s - 2.5, y + 2.5); g.lineTo(x + 2.5, y + s - 2.5); g.stroke();
        }
        break;
      case 'retrying': g.beginPath(); g.moveTo(x, y + s); g.lineTo(x + s / 2, y); g.lineTo(x + s, y + s); g.fill(); break;
      case 'notready': g.fillRect(x, y + s / 2, s, s / 2); g.lineWidth = 1; g.strokeRect(x + 0.5, y + 0.5, s - 1, s - 1); break;
      case 'unknown': case 'working': g.lineWidth = 1; g.strokeRect(x + 0.5, y + 0.5, s - 1, s - 1); if (state === 'working' && size > 5) g.fillRect(x + s / 2 - 1, y + s / 2 - 1, 2, 2); break;
      case 'gone': g.fillRect(x + 1, y + s / 2, s - 2, 1); break;
      default: g.globalAlpha = 0.5; g.fillRect(x + 0.5, y + 0.5, s - 1, s - 1); g.globalAlpha = 1;
    }
  }

  #under(e) {
    const { size, across, band } = this.place ?? {};
    if (!size) return null;
    const at = Math.floor(e.offsetY / band);
    const i = Math.floor((e.offsetY - at * band) / size) * across + Math.floor(e.offsetX / size);
    const row = this.#rows[i];
    return row && at < this.#apps.length && Math.floor(e.offsetX / size) < across ? { app: this.#apps[at], at, row } : null;
  }
}
