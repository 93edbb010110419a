// Audit: who has asked for what, and what came of it.

import { get } from './api.js';
import { fill, h, scroll } from './dom.js';
import { yaml } from './words.js';

const filters = { who: 'Who', verb: 'Verb', noun: 'Noun', outcome: 'Outcome', resource: 'Resource', from: 'Since, such as 2h', to: 'Until, such as 30m' };

export function show(main, at, life) {
  const fields = Object.entries(filters).map(([name, title]) => h('input', { name, placeholder: title, 'aria-label': title, autocomplete: 'off', spellcheck: false, value: at.query.get(name) ?? '' }));
  const form = h('form', { class: 'tools', 'aria-label': 'Show only records that are' }, fields, h('button', { type: 'submit' }, 'Filter'));
  form.addEventListener('submit', (e) => {
    e.preventDefault();
    const query = new URLSearchParams(fields.filter((f) => f.value.trim()).map((f) => [f.name, f.value.trim()]));
    const before = location.hash;
    location.hash = `#/audit${query.size ? `?${query}` : ''}`;
    if (location.hash === before) read(Object.fromEntries(query)); // nobody says that it has changed
  });
  const body = h('div', {});
  main.append(h('div', { class: 'title' }, h('h1', {}, 'Audit'), h('span', { class: 'dim' }, 'Who has asked for what, and what came of it; the newest first')), form, body);

  function read(query) {
    const rows = h('tbody', {});
    const hanging = h('section', { 'aria-label': 'Without an answer', hidden: true });
    const more = h('button', { type: 'button' }, 'Show more');
    const said = h('p', { class: 'dim', role: 'status' });
    fill(body, hanging, table(rows), said, more);
    more.hidden = true;
    let next;
    const page = async () => {
      more.disabled = true;
      if (!rows.children.length) {
        said.className = 'dim';
        said.textContent = 'Reading…';
      }
      try {
        const list = await get('audit', { ...query, event: query.event ?? 'answered', limit: 100, continue: next }, life.signal);
        next = list.continue;
        if (!rows.children.length && !query.event && !query.outcome) unanswered(query, hanging); // which has no outcome
        rows.append(...(list.items ?? []).map(record));
        said.hidden = rows.children.length > 0;
        said.textContent = 'There is no such record.';
        more.textContent = 'Show more';
        more.hidden = !next;
      } catch (e) {
        if (life.over) return;
        said.hidden = false;
        said.className = 'wrong';
        said.textContent = e.message;
        more.textContent = 'Try again';
        more.hidden = e.status >= 400 && e.status < 500 && e.status !== 429; // it would be refused again
      }
      more.disabled = false;
    };
    more.addEventListener('click', page);
    page();
  }

  /** unanswered shows in a box what has begun and has no answer: it goes on, or its process has died. */
  function unanswered(query, box) {
    const rows = h('tbody', {});
    const more = h('button', { type: 'button' }, 'Look further back for what has no answer');
    let next;
    const page = async () => {
      more.disabled = true;
      try {
        const list = await get('audit', { ...query, event: 'unanswered', limit: 100, continue: next }, life.signal);
        next = list.continue;
        rows.append(...(list.items ?? []).map((r) => record({ ...r, outcome: 'no answer' })));
        const some = rows.children.length > 0;
        more.hidden = !next;
        box.hidden = !some && !next;
        fill(box,
          some ? [h('h2', {}, 'Without an answer'), h('p', { class: 'dim' }, 'What has begun, and of which nothing says what came of it: it goes on, or its process has died.'), table(rows)] : null,
          more, some ? h('h2', {}, 'Answered') : null);
      } catch (e) {
        if (life.over) return;
        const why = h('p', { class: 'wrong' }, `What has no answer could not be read: ${e.message}`);
        if (box.hidden) fill(box, why);
        else more.after(why);
        box.hidden = false;
      }
      more.disabled = false;
    };
    more.addEventListener('click', page);
    page();
  }

  const moved = (to) => {
    for (const f of fields) f.value = to.query.get(f.name) ?? '';
    read(Object.fromEntries([...to.query].filter(([name]) => Object.hasOwn(filters, name))));
  };
  moved(at);
  return { moved };
}

const table = (rows) => scroll(h('table', {}, h('thead', {}, h('tr', {}, ['When', 'Who', 'What', 'Outcome', 'From', ''].map((c) => h(c ? 'th' : 'td', c ? { scope: 'col' } : {}, c)))), rows));

function record(r) {
  return h('tr', {},
    h('td', { class: 'nowrap', title: r.time }, new Date(r.time).toLocaleString()), // with its day: the row may be there tomorrow
    h('td', {}, r.who ? [r.who.name || r.who.kind, h('span', { class: 'dim' }, r.who.name ? ` ${r.who.kind}` : '')] : ''),
    h('td', { class: 'long' }, h('span', { class: 'strong' }, `${r.verb ?? r.event} `), h('span', {}, r.key || r.noun || '')),
    h('td', { class: r.outcome === 'done' ? 'is-ready' : 'wrong' }, r.outcome ?? r.event),
    h('td', { class: 'dim' }, r.from ?? ''),
    h('td', {}, h('details', {}, h('summary', { 'aria-label': 'The whole record' }, '…'), h('pre', { tabIndex: 0, 'aria-label': 'Record' }, yaml(r)))));
}
