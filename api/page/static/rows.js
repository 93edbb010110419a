// Long lists: of thousands of rows only those in sight are elements.

import { h } from './dom.js';

const spare = 12; // rows beyond each edge
const budget = 4; // milliseconds of a frame for those; what is in sight is drawn at once

/** Rows shows items as rows of one height, with the scrolling of the whole page. */
export class Rows {
  #height; #numbered; #make; #draw; #items = []; #live = new Map(); #free = []; #frame = 0;

  /**
   * make makes an empty row, draw(row, item, index) fills it. An item is drawn again when it is another one, or its stamp is.
   */
  constructor(life, { height, make, draw, label, roles = ['rowgroup', 'row'] }) {
    this.#height = height;
    this.#make = make ?? (() => h('div', { class: 'row', role: roles[1] }));
    this.#numbered = roles[1] === 'row';
    this.#draw = draw;
    this.element = h('div', { class: 'rows', role: roles[0], 'aria-label': label });
    life.listen(window, 'scroll', () => this.soon(), { passive: true });
    life.listen(window, 'resize', () => this.soon());
    life.onEnd(() => cancelAnimationFrame(this.#frame));
  }

  get items() { return this.#items; }

  set(items) {
    this.#items = items;
    this.element.style.height = `${items.length * this.#height}px`;
    this.soon();
  }

  /** soon draws with the next frame. */
  soon() {
    if (this.#frame) return;
    this.#frame = requestAnimationFrame(() => { this.#frame = 0; this.now(); });
  }

  now() {
    const box = this.element.getBoundingClientRect();
    const from = Math.max(0, Math.floor(-box.top / this.#height) - spare);
    const to = Math.min(this.#items.length, Math.ceil((innerHeight - box.top) / this.#height) + spare);
    for (const [index, row] of this.#live) {
      if (index >= from && index < to) continue;
      row.remove();
      row.shown = undefined;
      this.#live.delete(index);
      this.#free.push(row);
    }
    const first = Math.max(0, Math.floor(-box.top / this.#height));
    const last = Math.min(this.#items.length, Math.ceil((innerHeight - box.top) / this.#height));
    for (let i = first; i < last; i++) this.#show(i);
    // The rows beyond what is in sight, the nearest ones first, take as many frames as they need.
    const begun = performance.now();
    for (let away = 0; away < spare; away++) {
      for (const i of [last + away, first - 1 - away]) {
        if (i < from || i >= to || !this.#show(i)) continue;
        if (performance.now() - begun > budget) { this.soon(); return; }
      }
    }
    this.#free.length = Math.min(this.#free.length, 64);
  }

  /** #show draws an item where it is another one than what its row shows; it says whether it was. */
  #show(i) {
    let row = this.#live.get(i);
    if (!row) {
      row = this.#free.pop() ?? this.#make();
      row.style.transform = `translateY(${i * this.#height}px)`;
      if (this.#numbered) row.setAttribute('aria-rowindex', i + 2);
      this.#live.set(i, row);
      this.#place(row, i);
    }
    const item = this.#items[i];
    if (row.shown === item && row.stamp === item.stamp) return false;
    const at = row.contains(document.activeElement) ? [...row.querySelectorAll('a,button')].indexOf(document.activeElement) : -1;
    this.#draw(row, item, i);
    if (at >= 0 && !row.contains(document.activeElement)) row.querySelectorAll('a,button')[at]?.focus({ preventScroll: true });
    row.shown = item;
    row.stamp = item.stamp;
    return true;
  }

  /** place keeps rows in the order of their numbers, for keyboards and screen readers. */
  #place(row, index) {
    let after = null;
    for (let i = index - 1; i >= index - 2 * spare && !after; i--) after = this.#live.get(i)?.isConnected ? this.#live.get(i) : null;
    if (after) after.after(row);
    else this.element.prepend(row);
  }

  /** row is the element of a number; it is scrolled into sight. */
  row(index) {
    if (index < 0 || index >= this.#items.length) return null;
    const top = this.element.getBoundingClientRect().top + index * this.#height;
    if (top < 120) scrollBy(0, top - 120);
    else if (top > innerHeight - 2 * this.#height) scrollBy(0, top - innerHeight + 3 * this.#height);
    this.now();
    return this.#live.get(index);
  }
}
