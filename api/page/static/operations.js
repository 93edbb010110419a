// Operations: what goes on in the fleet, what it waits for, and what has ended lately.

import { act, get, pages } from './api.js';
import { dialog, told } from './dialog.js';
import { fill, h, icon } from './dom.js';
import { link } from './explain.js';
import { deniedOn } from './rights.js';
import { count, groupOf, nameOf, pageOf, span, stateOfOperation, when } from './words.js';

const asked = 12; // running operations of which it is found out what they wait for, beside those that somebody wants to know it of

export function show(main, _at, life) {
  const going = h('div', {}, h('p', { class: 'dim' }, 'Reading\u2026'));
  const ended = h('div', {});
  const said = new Map(); // by resource: what explain says
  const denied = new Map(); // by resource: what who looks may not do
  const wanted = new Set(); // resources of which somebody wants to know what they wait for
  main.append(h('div', { class: 'title' }, h('h1', {}, 'Operations')), h('h2', {}, 'Going on'), going, h('h2', {}, 'Ended within a day'), ended);
  const again = life.poll(3000, async (signal) => {
    const running = [];
    for await (const page of pages('operations', { state: 'Running' }, signal)) {
      running.push(...page);
      if (running.length >= 1000) break;
    }
    const lately = await get('operations', { since: '24h', limit: 100 }, signal);
    const of = running.filter((o, i) => i < asked || wanted.has(o.resource)).slice(0, 4 * asked);
    const now = new Map();
    await Promise.all(of.map(async (o) => {
      const [e, d] = await Promise.all([get(`${o.resource}/explain`, { output: 'json' }, signal).catch(() => null), deniedOn(o.resource, signal)]);
      if (e) now.set(o.resource, e);
      denied.set(o.resource, d);
    }));
    said.clear();
    for (const [k, v] of now) said.set(k, v);
    for (const k of denied.keys()) if (!running.some((o) => o.resource === k)) denied.delete(k);
    return { running, lately: (lately.items ?? []).filter((o) => o.state !== 'Running') };
  }, ({ running, lately }) => {
    const had = document.activeElement?.dataset?.stop;
    fill(going, running.length ? table(running, said, denied, (o) => stop(o, again), (o) => { wanted.add(o.resource); again(); }) : h('p', { class: 'empty' }, 'Nothing goes on.'));
    if (had) going.querySelector(`[data-stop="${CSS.escape(had)}"]`)?.focus();
    fill(ended, lately.length ? operationsTable(lately, true) : h('p', { class: 'empty' }, 'Nothing has ended.'));
  }, (p) => fill(main, h('h1', {}, 'Operations'), h('p', { class: 'wrong' }, p.message)));
}

function stop(o, again) {
  dialog({
    title: `Stop the ${o.operation} of ${nameOf(o.resource)}`, confirm: 'Stop it', danger: true,
    about: async (signal) => {
      const e = await get(`${o.resource}/explain`, { output: 'json' }, signal);
      return { what: [h('p', { class: 'lead' }, 'Breaks it off where it is. What is done stays as it is; nothing is taken back.'), h('p', {}, `Now: ${e.summary}`)] };
    },
    done: () => act('POST', `${o.resource}/stop`).finally(again),
  });
}

const what = (o) => {
  const href = pageOf(o.resource);
  const g = groupOf(o.resource);
  const words = g ? `${g.name}` : nameOf(o.resource);
  return [href ? h('a', { href, class: 'strong' }, words) : h('span', { class: 'strong' }, words), h('span', { class: 'dim' }, g ? ` ${g.project} / ${g.app} ${g.version}` : ` ${o.kind ?? ''}`)];
};

/** table is that of running operations: for whom each waits, and since when. */
function table(list, said, denied, stopIt, look) {
  return h('div', { class: 'scroll' }, h('table', {},
    h('thead', {}, h('tr', {}, ['Of', 'Operation', 'For', 'Waits for', 'Stuck since', 'By', ''].map((c) => h(c ? 'th' : 'td', c ? { scope: 'col' } : {}, c)))),
    h('tbody', {}, list.map((o) => {
      const e = said.get(o.resource);
      return h('tr', {},
        h('td', {}, what(o)),
        h('td', {}, h('span', { class: 'state is-working' }, icon('working'), h('span', {}, o.detail || o.operation))),
        h('td', {}, when(o.started)),
        h('td', { class: 'long' }, e ? [h('div', {}, e.summary), reasons(e)] : h('button', { type: 'button', class: 'small', on: { click: (x) => { x.target.disabled = true; look(o); } } }, 'Find out')),
        h('td', {}, stuck(e)),
        h('td', {}, o.requestedBy ?? ''),
        h('td', {}, link(o.workflow?.link, 'run'), ' ', stopButton(o, denied.get(o.resource)?.stop, stopIt)));
    }))));
}

/** stopButton is there unless one may not know of it; without the right it says so, and who can give it. */
function stopButton(o, no, stopIt) {
  if (no?.kind === 'NotFound') return null;
  if (no) return h('button', { type: 'button', class: 'small denied', title: no.why, on: { click: () => told('You may not: Stop', no.why) } }, icon('lock'), 'Stop');
  return h('button', { type: 'button', class: 'small danger-quiet', dataset: { stop: o.id }, on: { click: () => stopIt(o) } }, 'Stop');
}

/** stuck is since when the first of those is waited for that hold it up. */
function stuck(e) {
  const since = (e?.reasons ?? []).flatMap((r) => r.examples ?? []).filter((x) => x.since && (x.error || x.attempt > 1 || x.nextAttempt)).map((x) => x.since).sort();
  return since.length ? h('span', { class: 'warn' }, when(since[0])) : '';
}

/** reasons says for whom it waits. */
function reasons(e) {
  return e?.reasons?.slice(0, 3).map((r) => h('div', { class: 'dim' },
    e.summary.includes(r.text) ? null : [r.text, r.examples?.length ? ': ' : ''],
    (r.examples ?? []).map((x) => [x.app, x.cluster].filter(Boolean).join(' on ')).filter(Boolean).join(', '), r.more ? ` and ${r.more} more` : '',
    r.error ? h('div', { class: 'error' }, r.error) : null));
}

/** operationsTable shows operations that have ended, each with its run; whose says of what. */
export function operationsTable(list, whose) {
  return h('div', { class: 'scroll' }, h('table', {},
    h('thead', {}, h('tr', {}, [...(whose ? ['Of'] : []), 'Operation', 'State', 'By', 'Began', 'Took', 'Why', 'Run'].map((c) => h(c ? 'th' : 'td', c ? { scope: 'col' } : {}, c)))),
    h('tbody', {}, list.map((o) => h('tr', {},
      whose ? h('td', {}, what(o)) : null,
      h('td', {}, o.detail || o.operation),
      h('td', {}, h('span', { class: `state is-${stateOfOperation(o.state)}` }, icon(stateOfOperation(o.state)), h('span', {}, o.state))),
      h('td', {}, o.requestedBy ?? ''), h('td', {}, when(o.started)),
      h('td', {}, o.ended ? span(Math.round((new Date(o.ended) - new Date(o.started)) / 1000)) : ''),
      h('td', { class: 'long' }, o.reason ?? ''),
      h('td', {}, link(o.workflow?.link, 'run')))))));
}
