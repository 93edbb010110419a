// An explanation: why something is not as it was asked to be, in plain words.

import { h, icon, renew } from './dom.js';
import { count, when } from './words.js';

/** link leads to another site, such as Temporal's Web UI; nothing but http is one. */
export const link = (url, words) => (/^https?:\/\//.test(url ?? '') ? h('a', { href: url, target: '_blank', rel: 'noreferrer' }, words, icon('out')) : null);

/** showExplanation fills box; hrefOf is the address of a cell, by app and cluster, where there are cells. */
export function showExplanation(box, e, hrefOf) {
  const open = new Set([...box.querySelectorAll('details[open]')].map((d) => d.dataset.key));
  const before = new Map(); // how many reasons of a kind and an error were before this one
  const working = e.operation && !e.operation.ended;
  const state = e.asWished ? 'ready' : working ? 'working' : 'notready';
  box.hidden = false;
  box.className = `why is-${state}`;
  renew(box,
    h('p', { class: 'lead' }, icon(state), h('span', {}, e.summary)),
    e.reasons?.map((r) => reason(r, open, hrefOf, before)),
    e.moreReasons ? h('p', { class: 'dim' }, `and ${count(e.moreReasons, 'reason')} more`) : null,
    e.warnings?.length ? h('details', { dataset: { key: 'warnings' }, open: open.has('warnings') }, h('summary', {}, count(e.warnings.length, 'warning')), h('ul', { class: 'tight' }, e.warnings.map((w) => h('li', {}, w)))) : null,
    e.unknown?.map((u) => h('p', { class: 'dim' }, `Not known: ${u}`)),
    e.operation ? h('p', { class: 'dim' }, `${e.operation.operation}${e.operation.by ? ` by ${e.operation.by}` : ''}, `, when(e.operation.since), ' ', link(e.operation.workflow?.link, 'its run')) : null);
}

const most = 160; // characters of an error in the line of its reason; below it the whole is to be seen

function reason(r, open, hrefOf, before) {
  const places = r.examples?.map((x) => h('li', {},
    hrefOf && x.app && x.cluster ? h('a', { href: hrefOf(x.app, x.cluster) }, `${x.app} on ${x.cluster}`) : [x.app, x.cluster].filter(Boolean).join(' on '),
    x.resource ? ` ${x.resource}` : '', x.error ? `: ${x.error}` : '',
    x.attempt ? h('span', { class: 'dim' }, ` attempt ${x.attempt}${x.nextAttempt ? `, the next at ${new Date(x.nextAttempt).toLocaleTimeString()}` : ''}`) : null,
    ' ', link(x.workflow?.link, 'run')));
  const which = `${r.kind} ${r.error ?? ''}`; // its text counts, and says how long ago
  const key = `${which} ${before.get(which) ?? 0}`;
  before.set(which, (before.get(which) ?? 0) + 1);
  return h('details', { dataset: { key }, open: open.has(key) },
    h('summary', {}, r.text, r.error ? h('span', { class: 'dim' }, `: ${r.error.length > most ? `${r.error.slice(0, most)}\u2026` : r.error}`) : null),
    r.error ? h('p', { class: 'error' }, r.error) : null,
    places?.length ? h('ul', { class: 'tight' }, places, r.more ? h('li', { class: 'dim' }, `and ${r.more} more`) : null) : null,
    r.do ? h('p', {}, `To do: ${r.do}`) : null);
}
