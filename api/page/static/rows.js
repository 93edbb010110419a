// Long lists: of thousands of rows only those in sight are elements, and what stays in sight stays the element it was.

import { h } from './dom.js';

const beyond = 400; // pixels beyond each edge that are drawn, too
const budget = 4; // milliseconds of a frame for those; what is in sight is drawn at once
const kept = 256; // rows that are in no use, for the next ones

/** Rows shows items as rows of one height, with the scrolling of the whole page. */
export class Rows {
  #height; #gap; #spare; #across = 1; #key; #numbered; #make; #draw; #items = []; #frame = 0;
  #from = 0; // the first item that may have a row
  #live = new Map(); // by key: the row of an item
  #left = new Set(); // rows whose items are not in sight any more; they are hidden, and in their places until all is drawn
  #free = []; // rows that are not in the page

  /**
   * key tells items apart: an item keeps its row, and so the keyboard, wherever it gets to. make makes an empty row, draw(row, item, index)
   * fills it. An item is drawn again when it is another object, or its stamp is another one. gap is between rows of a line, see set.
   */
  constructor(life, { height, gap = 0, key, make, draw, label, roles = ['rowgroup', 'row'] }) {
    this.#height = height;
    this.#gap = gap;
    this.#spare = Math.ceil(beyond / height); // lines
    this.#key = key;
    this.#make = make ?? (() => h('div', { class: 'row', role: roles[1] }));
    this.#numbered = roles[1] === 'row';
    this.#draw = draw;
    this.element = h('div', { class: 'rows', role: roles[0], 'aria-label': label });
    life.listen(window, 'scroll', () => this.soon(), { passive: true });
    life.listen(window, 'resize', () => this.soon());
    life.onEnd(() => cancelAnimationFrame(this.#frame));
  }

  /** set has items shown, so many of them across: the width of a row is what the style sheet makes of --across. */
  set(items, across = 1) {
    this.#items = items;
    if (across !== this.#across) {
      this.#across = across;
      this.element.style.setProperty('--across', String(across));
    }
    this.element.style.height = `${this.#lines() * this.#height}px`;
    this.soon();
  }

  #lines() { return Math.ceil(this.#items.length / this.#across); }

  /** soon draws with the next frame. */
  soon() {
    if (this.#frame) return;
    this.#frame = requestAnimationFrame(() => { this.#frame = 0; this.now(); });
  }

  now() {
    const box = this.element.getBoundingClientRect();
    const lines = this.#lines();
    const first = Math.max(0, Math.floor(-box.top / this.#height));
    const last = Math.min(lines, Math.ceil((innerHeight - box.top) / this.#height));
    const edge = (line) => Math.max(0, Math.min(this.#items.length, line * this.#across));
    const to = edge(last + this.#spare);
    this.#from = edge(first - this.#spare);
    const at = new Map();
    for (let i = this.#from; i < to; i++) at.set(this.#key(this.#items[i]), i);

    const had = document.activeElement;
    let whose; // the item that the keyboard is on
    for (const [key, row] of this.#live) {
      if (row.contains(had)) whose = key;
      if (at.has(key)) this.#put(row, at.get(key));
      else this.#leave(key, row);
    }
    this.#order();
    for (let i = edge(first); i < edge(last); i++) this.#show(i);
    const all = this.#beyond(first, last, edge);
    if (this.#live.get(whose)?.contains(had) && document.activeElement !== had) had.focus({ preventScroll: true }); // its row was moved
    if (!all) {
      this.soon();
      return;
    }
    for (const row of this.#left) {
      row.remove();
      if (this.#free.length < kept) this.#free.push(row);
    }
    this.#left.clear();
  }

  /** #beyond draws the lines beyond what is in sight, the nearest ones first; they take as many frames as they need. It says whether all are drawn. */
  #beyond(first, last, edge) {
    const begun = performance.now();
    for (let away = 0; away < this.#spare; away++) {
      for (const line of [last + away, first - 1 - away]) {
        let some = false;
        for (let i = edge(line); i < edge(line + 1); i++) some = this.#show(i) || some;
        if (some && performance.now() - begun > budget) return false;
      }
    }
    return true;
  }

  /** #show draws an item where it is another one than what its row shows; it says whether it was. */
  #show(i) {
    const item = this.#items[i];
    const key = this.#key(item);
    let row = this.#live.get(key);
    if (!row) {
      row = this.#take(i);
      this.#live.set(key, row);
      this.#put(row, i);
    }
    if (row.shown === item && row.stamp === item.stamp) return false;
    this.#draw(row, item, i);
    row.shown = item;
    row.stamp = item.stamp;
    return true;
  }

  /** #put has a row at the place of an item. */
  #put(row, i) {
    if (row.index === i && row.across === this.#across) return;
    row.index = i;
    row.across = this.#across;
    // By no transform: a browser paints each row that has one apart.
    row.style.left = `calc(${i % this.#across} * (100% + ${this.#gap}px) / ${this.#across})`;
    row.style.top = `${Math.floor(i / this.#across) * this.#height}px`;
    if (this.#numbered) row.setAttribute('aria-rowindex', i + 2);
  }

  /** #leave takes a row from its item. The keyboard does not go on to what the row shows next. */
  #leave(key, row) {
    if (row.contains(document.activeElement)) document.activeElement.blur();
    row.style.visibility = 'hidden';
    row.shown = undefined;
    this.#live.delete(key);
    this.#left.add(row);
  }

  /** #take finds a row for an item: the one that was left in its place, so that nothing is moved, or another one. */
  #take(i) {
    let before;
    for (let j = i - 1; j >= this.#from && !before; j--) before = this.#live.get(this.#key(this.#items[j]));
    const next = before ? before.nextElementSibling : this.element.firstElementChild;
    let row = next;
    if (!this.#left.delete(next)) {
      row = this.#free.pop() ?? this.#left.values().next().value ?? this.#make();
      this.#left.delete(row);
      this.element.insertBefore(row, next);
    }
    row.style.visibility = '';
    return row;
  }

  /** #order keeps rows in the order of their items, for keyboards and screen readers, and moves as few as it can. */
  #order() {
    let at = this.element.firstElementChild;
    const next = (e) => { do e = e.nextElementSibling; while (this.#left.has(e)); return e; };
    if (this.#left.has(at)) at = next(at);
    for (const row of [...this.#live.values()].sort((a, b) => a.index - b.index)) {
      if (row === at) at = next(at);
      else if (at && next(at) === row) at = next(row); // the one before it has gone elsewhere
      else this.element.insertBefore(row, at);
    }
  }

  /** at is the item of a number, and index the number of the one that has a key, -1 for none. */
  at(index) { return this.#items[index]; }
  index(key) { return this.#items.findIndex((x) => this.#key(x) === key); }

  /** row is the element of a number; it is scrolled into sight. */
  row(index) {
    if (index < 0 || index >= this.#items.length) return null;
    const top = this.element.getBoundingClientRect().top + Math.floor(index / this.#across) * this.#height;
    if (top < 120) scrollBy(0, top - 120);
    else if (top > innerHeight - 2 * this.#height) scrollBy(0, top - innerHeight + 3 * this.#height);
    this.now();
    return this.#live.get(this.#key(this.#items[index]));
  }
}
