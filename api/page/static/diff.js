// What an operation would change in clusters, resource by resource and field by field. Nothing of it is done.

import { foresee } from './api.js';
import { h, icon } from './dom.js';
import { count, yaml } from './words.js';

const page = 50; // items at a time
const openUpTo = 6; // resources whose changes are shown without being asked for

const acts = {
  create: { sign: '+', words: 'created', kind: 'ready' },
  change: { sign: '~', words: 'changed', kind: 'working' },
  again: { sign: '=', words: 'applied again as it was', kind: 'unknown' },
  run: { sign: '\u203a', words: 'run', kind: 'working' },
  delete: { sign: '\u2212', words: 'deleted', kind: 'failed' },
};

/** summary says in one line what would be done. */
export function summary(d) {
  const parts = Object.entries(acts).filter(([a]) => d.changes[a]).map(([a, x]) => `${d.changes[a].toLocaleString('en')} ${x.words}`);
  if (!parts.length) return `Nothing would change: ${count(d.unchanged, 'resource')} stay${d.unchanged === 1 ? 's' : ''} as ${d.unchanged === 1 ? 'it is' : 'they are'}.`;
  const all = Object.values(d.changes).reduce((a, b) => a + b, 0);
  return `${count(all, 'resource')} on ${count(d.clusters, 'cluster')}: ${parts.join(', ')}; ${d.unchanged.toLocaleString('en')} stay as they are.`;
}

/** read asks for a difference; query says of which operation. */
export const read = (key, query, signal) => foresee(`${key}/diff`, { limit: page, ...query }, signal);

/** showDiff is a difference as elements; what is beyond the first page is asked for when it is wanted. */
export function showDiff(key, query, d, signal) {
  const list = h('div', { class: 'diff' });
  const more = h('button', { type: 'button', class: 'small', hidden: !d.continue }, 'Show more');
  let next = d.continue;
  let left = openUpTo;
  const add = (items) => list.append(...items.map((i) => item(i, () => left-- > 0)));
  add(d.items ?? []);
  more.addEventListener('click', async () => {
    more.disabled = true;
    try {
      const answer = await read(key, { ...query, continue: next }, signal);
      next = answer.continue;
      add(answer.items ?? []);
      more.hidden = !next;
    } catch (e) {
      if (!signal.aborted) more.after(h('p', { class: 'wrong' }, e.message));
    }
    more.disabled = false;
  });
  return [
    d.warnings?.length ? [h('p', {}, 'What does not hold, or is missing:'), h('ul', { class: 'tight warn' }, d.warnings.map((w) => h('li', {}, w)))] : null,
    list, more,
  ];
}

/** item is what would be done for an app on clusters on which it is the same. */
function item(i, open) {
  const few = i.clusters.slice(0, 4).join(', ') + (i.clusters.length > 4 ? ` and ${i.clusters.length - 4} more` : '');
  return h('section', {},
    h('h3', {}, i.app, h('span', { class: 'dim' }, `${i.arrives ? ' comes to ' : i.leaves ? ' leaves ' : ' on '}${few}`)),
    h('ul', { class: 'resources' }, i.resources.map((r) => resource(r, open))));
}

function resource(r, open) {
  const act = acts[r.action] ?? { sign: '?', words: r.action, kind: 'unknown' };
  const line = h('summary', {},
    h('span', { class: `sign is-${act.kind}`, 'aria-hidden': 'true' }, act.sign),
    h('span', { class: 'what strong' }, r.resource), h('span', { class: 'dim' }, r.replace ? `${act.words}; deleted and made anew where its cluster refuses that` : act.words));
  const said = [
    r.fields?.length ? h('table', { class: 'fields' }, h('thead', {}, h('tr', {}, ['Field', 'Now', 'Then'].map((c) => h('th', { scope: 'col' }, c)))), h('tbody', {}, r.fields.map((f) => h('tr', {},
      h('td', { class: 'mono' }, f.path),
      h('td', { class: 'mono' }, 'before' in f ? h('del', {}, plain(f.before)) : h('span', { class: 'dim' }, 'not there')),
      h('td', { class: 'mono' }, 'after' in f ? h('ins', {}, plain(f.after)) : h('span', { class: 'dim' }, 'not there'), f.cut ? h('span', { class: 'dim' }, ' cut: too large') : null))))) : null,
    r.more ? h('p', { class: 'dim' }, `and ${count(r.more, 'field')} more`) : null,
    r.object ? h('pre', { tabIndex: 0, 'aria-label': r.resource }, yaml(r.object)) : null,
    r.cut ? h('p', { class: 'dim' }, 'It is too large to be shown.') : null,
  ].filter(Boolean);
  if (!said.length && r.action === 'change') said.push(h('p', { class: 'dim' }, 'It says the same, otherwise written.'));
  if (!said.length) return h('li', {}, h('div', { class: 'flat' }, [...line.childNodes]));
  return h('li', {}, h('details', { open: Boolean(r.fields?.length) && open() }, line, h('div', { class: 'object' }, said)));
}

const plain = (v) => (typeof v === 'string' ? v : v !== null && typeof v === 'object' ? yaml(v) : String(v));

/** whole is a difference as elements, with what it comes to. */
export const whole = (key, query, d, signal) => [h('p', { class: 'lead' }, icon(d.clusters ? 'working' : 'ready'), ` ${summary(d)}`), showDiff(key, query, d, signal)];
