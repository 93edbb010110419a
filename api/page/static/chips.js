// Chips count what there is by state, and leave only one state when they are pressed.

import { fill, h, icon, text } from './dom.js';

/** Chips are made of words by state, in their order; changed is called when another state, '' for all, is asked for. */
export class Chips {
  only = '';
  #words; #changed; #key = '';

  constructor(words, label, changed) {
    this.#words = words;
    this.#changed = changed;
    this.element = h('div', { class: 'chips', role: 'group', 'aria-label': label });
  }

  /** show shows how many there are of each; what is asked for is also where there is none: one may come, and nobody has said that all are wanted. */
  show(counts) {
    if (!Object.hasOwn(this.#words, this.only)) this.only = '';
    const there = Object.keys(this.#words).filter((s) => counts[s] || s === this.only);
    const key = `${there.join()} ${this.only}`;
    if (this.#key !== key) {
      const had = this.element.contains(document.activeElement) ? document.activeElement.dataset.state : '';
      fill(this.element, there.map((s) => h('button', {
        type: 'button', class: `chip is-${s}`, dataset: { state: s }, 'aria-pressed': String(this.only === s),
        on: { click: () => { this.only = this.only === s ? '' : s; this.#changed(); } },
      }, icon(s), h('b', {}), ` ${this.#words[s]}`)));
      this.#key = key;
      if (had) (this.element.querySelector(`[data-state="${had}"]`) ?? this.element.firstElementChild)?.focus();
    }
    for (const b of this.element.children) text(b.querySelector('b'), (counts[b.dataset.state] ?? 0).toLocaleString('en'));
  }
}
