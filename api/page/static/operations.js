// Operations: what goes on in the fleet, what it waits for, and what has ended lately.

import { act, get, pages } from './api.js';
import { dialog } from './dialog.js';
import { fill, h, icon } from './dom.js';
import { link } from './explain.js';
import { count, groupOf, nameOf, pageOf, span, stateOfOperation, when } from './words.js';

const asked = 12; // running operations of which it is found out what they wait for

export function show(main, _at, life) {
  const going = h('div', {}, h('p', { class: 'dim' }, 'Reading\u2026'));
  const ended = h('div', {});
  const said = new Map(); // by resource: what explain says
  main.append(h('div', { class: 'title' }, h('h1', {}, 'Operations')), h('h2', {}, 'Going on'), going, h('h2', {}, 'Ended within a day'), ended);
  const again = life.poll(3000, async (signal) => {
    const running = [];
    for await (const page of pages('operations', { state: 'Running' }, signal)) {
      running.push(...page);
      if (running.length >= 1000) break;
    }
    const lately = await get('operations', { since: '24h', limit: 100 }, signal);
    const now = new Map();
    await Promise.all(running.slice(0, asked).map(async (o) => {
      const e = await get(`${o.resource}/explain`, { output: 'json' }, signal).catch(() => null);
      if (e) now.set(o.resource, e);
    }));
    said.clear();
    for (const [k, v] of now) said.set(k, v);
    return { running, lately: (lately.items ?? []).filter((o) => o.state !== 'Running') };
  }, ({ running, lately }) => {
    const had = document.activeElement?.dataset?.stop;
    fill(going, running.length ? table(running, said, (o) => stop(o, again)) : h('p', { class: 'empty' }, 'Nothing goes on.'));
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

/** table is that of running operations. */
function table(list, said, stopIt) {
  return h('div', { class: 'scroll' }, h('table', {},
    h('thead', {}, h('tr', {}, ['Of', 'Operation', 'For', 'Where it stands', 'By', ''].map((c) => h(c ? 'th' : 'td', c ? { scope: 'col' } : {}, c)))),
    h('tbody', {}, list.map((o) => h('tr', {},
      h('td', {}, what(o)),
      h('td', {}, h('span', { class: 'state is-working' }, icon('working'), h('span', {}, o.detail || o.operation))),
      h('td', {}, when(o.started)),
      h('td', { class: 'long' }, said.get(o.resource)?.summary ?? '', reasons(said.get(o.resource))),
      h('td', {}, o.requestedBy ?? ''),
      h('td', {}, link(o.workflow?.link, 'run'), ' ', h('button', { type: 'button', class: 'small danger-quiet', dataset: { stop: o.id }, on: { click: () => stopIt(o) } }, 'Stop')))))));
}

/** reasons says for whom it waits, and since when. */
function reasons(e) {
  return e?.reasons?.slice(0, 3).map((r) => h('div', { class: 'dim' }, r.text, r.clusters > 1 ? ` (${count(r.clusters, 'cluster')})` : '', r.examples?.[0]?.since ? [', since ', when(r.examples[0].since)] : null));
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
