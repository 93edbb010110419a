// One app on one cluster: its resources, what was done and what became of them.

import { get } from './api.js';
import { fill, h, icon } from './dom.js';
import { states, when, yaml } from './words.js';

const shownAs = { Applied: 'applied', Pending: 'working', Retrying: 'retrying', Failed: 'failed', Deleted: 'gone' };
const readyAs = { Ready: 'ready', NotReady: 'notready', NotPresent: 'notready' };

/** showCell fills box; back is the address of the group, close goes there. It returns changed, to be called when the cell is another one, and end. */
export function showCell(box, life, { key, app, cluster, back, close, matrix }) {
  let over = false;
  const heading = h('h2', { tabIndex: -1 }, `${app} on ${cluster}`);
  const state = h('p', { class: 'state' });
  const body = h('div', {}, h('p', { class: 'dim' }, 'Reading…'));
  fill(box, h('div', { class: 'title' }, heading, h('a', { class: 'close', href: back, 'aria-label': 'Close', on: { click: (e) => { if (!e.ctrlKey && !e.metaKey && !e.shiftKey) { e.preventDefault(); close(); } } } }, icon('close'))), state, body);
  heading.focus({ preventScroll: true });
  let last = '';
  let had = false; // whether there was such a cell

  /** headline is where the cell stands: as the matrix has it, 'never' where that has had none, '' as long as it has read nothing. */
  const headline = () => {
    const is = matrix.get(app, cluster)?.state;
    had ||= Boolean(is);
    return is ?? (!matrix.known ? '' : had ? 'gone' : 'never');
  };
  headline();

  const again = life.poll(5000, async (signal) => {
    if (over) return null;
    const query = { app, cluster, output: 'detail' };
    const [done, ready] = await Promise.all([get(`${key}/status`, { ...query, type: 'rsync' }, signal), get(`${key}/status`, { ...query, status: 'ready' }, signal)]);
    return { done, ready };
  }, (answer) => {
    if (over || !answer) return;
    const said = JSON.stringify([answer, headline()]); // the matrix may have heard of it since
    if (said === last) return;
    last = said;
    draw(answer);
  }, (p) => { last = ''; if (!over) fill(body, h('p', { class: 'wrong' }, p.message)); });

  function draw({ done, ready }) {
    const a = done.apps?.[0]?.clusters?.[0] ?? {};
    const b = ready.apps?.[0]?.clusters?.[0] ?? {};
    const cellState = headline();
    state.hidden = !cellState;
    state.className = cellState === 'never' ? 'dim' : `state is-${cellState}`;
    fill(state, cellState === 'never' ? 'This app does not go to this cluster.' : cellState ? [icon(cellState), h('span', {}, states[cellState])] : null);
    const open = new Set([...body.querySelectorAll('details[open]')].map((d) => d.dataset.key));
    const all = paired(a.resources ?? [], b.resources ?? []);
    const note = (label, words) => (words ? h('p', { class: 'error' }, `${label}${words}`) : null);
    fill(body,
      note('', a['last-error']), a.reason ? h('p', {}, a.reason) : null, b.reason && b.reason !== a.reason ? h('p', { class: 'dim' }, `Not heard: ${b.reason}`, b.lastSeen ? [', last ', when(b.lastSeen)] : null) : null,
      a.placement ? h('p', { class: 'dim' }, `Here because of ${a.placement}`) : null,
      (a.warnings ?? []).map((w) => h('p', { class: 'warn' }, w)),
      h('ul', { class: 'resources' }, all.map((r) => resource(r, open.has(r.id)))));
  }

  function resource({ id, done, ready }, opened) {
    const r = ready ?? done;
    const s = done && done['rsync-status'];
    const kind = s && s !== 'Applied' ? shownAs[s] : readyAs[ready?.readyStatus] ?? shownAs[s] ?? 'unknown';
    const made = ready?.detail?.metadata?.creationTimestamp;
    const messages = [done?.message, ready?.message, ready?.reason, ...(done?.warnings ?? [])].filter(Boolean);
    const line = h('summary', {},
      h('span', { class: `is-${kind}` }, icon(kind, [s, ready?.readyStatus].filter(Boolean).join(', '))),
      h('span', { class: 'what' }, h('span', { class: 'dim' }, `${r.GVK.Kind} `), h('span', { class: 'strong' }, r.name)),
      h('span', { class: 'dim' }, [s, ready?.readyStatus].filter(Boolean).join(' · ')),
      h('span', { class: 'dim' }, when(made)));
    const more = h('div', { class: 'object' });
    const d = h('details', { dataset: { key: id }, open: opened }, line, messages.map((m) => h('p', { class: kind === 'ready' || kind === 'applied' ? 'warn' : 'error' }, m)), more);
    const show = () => {
      if (!d.open || more.firstChild) return;
      const object = ready?.detail ?? done?.detail;
      const effects = done?.effects ?? ready?.effects;
      fill(more, effects?.length ? h('p', { class: 'dim' }, `Made by intents: ${effects.join('; ')}`) : null,
        object ? [h('p', { class: 'dim' }, ready?.detail ? 'As the cluster reports it' : 'As it was sent'), h('pre', { tabIndex: 0, 'aria-label': `${r.GVK.Kind} ${r.name}` }, yaml(object))] : h('p', { class: 'dim' }, 'Nothing is reported of it.'));
    };
    d.addEventListener('toggle', show);
    show();
    const item = h('li', {}, d);
    if (messages.length && !opened) item.append(h('p', { class: 'first' }, messages[0]));
    d.addEventListener('toggle', () => { const f = item.querySelector('.first'); if (f) f.hidden = d.open; });
    return item;
  }

  return { changed: again, end: () => { over = true; again.end(); } };
}

/**
 * paired are resources, each with what was done and whether it is ready. Documents tell them apart by their kinds and names, which several
 * namespaces may have: those are paired first of which both say the same namespace, and then the others in their order.
 */
function paired(done, ready) {
  const all = [];
  const alike = new Map(); // by kind and name
  const alikeOf = (r) => {
    const id = `${r.GVK.Group}/${r.GVK.Kind}/${r.name}`;
    if (!alike.has(id)) alike.set(id, []);
    return { id, same: alike.get(id) };
  };
  const add = (r) => {
    const { id, same } = alikeOf(r);
    const one = { id: same.length ? `${id}#${same.length}` : id };
    same.push(one);
    all.push(one);
    return one;
  };
  for (const r of done) add(r).done = r;
  const space = (r) => r?.detail?.metadata?.namespace;
  const free = (r, fits) => alikeOf(r).same.find((one) => !one.ready && fits(one));
  const rest = ready.filter((r) => {
    const one = space(r) && free(r, (x) => space(x.done) === space(r));
    if (one) one.ready = r;
    return !one;
  });
  for (const r of rest) (free(r, () => true) ?? add(r)).ready = r;
  return all;
}
