// Operations: what goes on in the fleet, what it waits for, and what has ended lately.

import { act, get, pages } from './api.js';
import { dialog, stopping, told } from './dialog.js';
import { h, icon, lines, scroll, text } from './dom.js';
import { link } from './explain.js';
import { keep } from './filters.js';
import { deniedOn } from './rights.js';
import { groupOf, nameOf, namesOf, pageOf, placeOf, span, stateOfOperation, when } from './words.js';

const asked = 12; // running operations of which it is found out what they wait for, beside those that somebody wants to know it of
const drawn = 200; // running operations that are shown at a time, and those that have ended
const explained = 5000; // how often it is asked what they wait for
const apart = 2000; // between two rounds of that at the least, however often other ones begin
const streamed = 2000; // running operations that the stream has at the most
const ends = 100; // as many of those that have ended the stream has at the most, and the list with others
const listed = 1000; // and the list, from where no further page is asked for

export function show(main, at, life) {
  let all = new Map(); // by run
  let known = false;
  let most = streamed;
  let older = false; // whether the list says that more have ended
  let words = '';
  let wrong = ''; // why nothing can be shown
  const goesOn = h('p', { class: 'dim' }, 'Reading\u2026'); // or why nothing is in the table, or that there is more
  const hasEnded = h('p', { class: 'dim', hidden: true });
  const why = h('p', { class: 'dim', hidden: true });
  const summary = h('span', { class: 'dim' });
  const search = h('input', { type: 'search', class: 'search', placeholder: 'Find operations', 'aria-label': 'Find operations by what they are of, their kind or who asked', on: { input: () => { words = search.value.trim().toLowerCase(); keep('operations', { find: search.value.trim() }); draw(); } } });
  const said = new Map(); // by run: what explain says; unread is why it does not now, asking whether somebody waits for it
  const denied = new Map(); // by resource: what who looks may not do, as far as that is known
  const wanted = new Set(); // runs of which somebody wants to know what they wait for
  const going = runningTable({ said, denied, stopIt: (o) => stop(o, again), look });
  const ended = endedTable(true);
  going.element.hidden = ended.element.hidden = true;
  main.append(h('div', { class: 'title' }, h('h1', {}, 'Operations'), summary, h('span', { class: 'grow' }), search), h('h2', {}, 'Going on'), going.element, goesOn, h('h2', {}, 'Ended within a day'), ended.element, hasEnded, why);

  const found = (o) => !words || `${namesOf(o.resource)} ${o.detail ?? ''} ${o.operation} ${o.requestedBy ?? ''} ${o.state}`.toLowerCase().includes(words);
  const running = () => [...all.values()].filter((o) => o.state === 'Running' && found(o)).sort((a, b) => (a.started < b.started ? 1 : -1)).slice(0, drawn);
  const finished = () => [...all.values()].filter((o) => o.state !== 'Running' && found(o)).sort((a, b) => ((a.ended ?? a.started) < (b.ended ?? b.started) ? 1 : -1)).slice(0, drawn);

  function draw() {
    if (!known) return;
    const [now, lately] = [running(), finished()];
    const goOn = [...all.values()].filter((o) => o.state === 'Running').length;
    const many = goOn.toLocaleString('en');
    const cut = goOn >= most; // more may go on
    text(summary, wrong ? '' : `${many}${cut ? ' or more' : ''} going on`);
    rights(now);
    going.show(now);
    say(goesOn, now.length, wrong || (cut ? `None of these ${many} is like that now.` : goOn ? 'No operation is like that now.' : 'Nothing goes on.'),
      now.length === drawn && goOn > drawn ? (cut ? `${drawn} of these ${many}; find others of them by their names` : `the last ${drawn} of them; find others by their names`) : '');
    const over = all.size - goOn;
    ended.show(lately);
    say(hasEnded, lately.length, wrong ? '' : over ? 'No operation is like that.' : 'Nothing has ended.', '');
    why.hidden = !older && over < ends;
    text(why, `of the last ${over.toLocaleString('en')} that have ended; others are found by \u201cdrover get operations\u201d`);
  }

  /** say has a line below a table say why that is empty, or that there is more, '' for neither. */
  const say = (line, some, none, more) => {
    line.className = some ? 'dim' : wrong ? 'wrong' : 'empty';
    line.hidden = Boolean(some) && !more;
    text(line, some ? more : none);
  };

  const drawSoon = life.each(draw); // of many changes in a frame all are shown at once

  /** rights finds out of all that are shown what who looks may not do; it waits for nothing else, so that one can stop what hangs. */
  const rights = (list) => {
    const shown = new Set(list.map((o) => o.resource));
    for (const resource of denied.keys()) if (!shown.has(resource)) denied.delete(resource);
    for (const resource of shown) {
      deniedOn(resource).then((d) => {
        if (denied.get(resource) === d) return;
        denied.set(resource, d);
        drawSoon();
      });
    }
  };

  // What they wait for, of those that are shown first, and of those that somebody wants to know it of: the one that was wanted last comes first.
  const first = () => {
    const list = running();
    const of = new Map(list.map((o) => [runOf(o), o]));
    return [...new Set([...list.slice(0, asked), ...[...wanted].reverse().flatMap((run) => of.get(run) ?? [])])].slice(0, 4 * asked);
  };
  const firstIDs = () => first().map(runOf).join();
  let round = 0; // when the last round has ended, Infinity while one goes on
  let soon = 0;
  const again = life.poll(explained, async (signal) => {
    const of = first();
    const now = new Map();
    clearTimeout(soon);
    soon = 0;
    const before = round;
    round = Infinity;
    try {
      await Promise.all(of.map(async (o) => {
        now.set(runOf(o), await get(`${o.resource}/explain`, { output: 'json' }, signal).catch((e) => ({ unread: e.message })));
      }));
    } finally {
      round = of.length ? Date.now() : before;
    }
    return now;
  }, (now) => {
    const due = new Set(first().map(runOf)); // some of them since it was asked
    for (const run of said.keys()) if (!now.has(run) && !due.has(run)) said.delete(run);
    for (const [run, e] of now) said.set(run, e.unread ? { ...said.get(run), asking: false, ...e } : e); // what was known before is better than nothing
    draw();
  });

  function look(o) {
    const run = runOf(o);
    wanted.delete(run);
    wanted.add(run);
    said.set(run, { ...said.get(run), asking: true });
    draw();
    again();
  }

  const againSoon = () => {
    soon ||= setTimeout(() => {
      soon = 0;
      if (round === Infinity) againSoon();
      else again();
    }, Math.max(0, Math.min(apart, round + apart - Date.now())));
  };
  life.onEnd(() => clearTimeout(soon));

  const taken = (changes, anew) => {
    known = true;
    wrong = '';
    const before = firstIDs();
    if (anew) all = new Map();
    for (const [run, o] of Object.entries(changes)) {
      if (o) all.set(run, o);
      else all.delete(run);
    }
    drawSoon();
    if (before !== firstIDs()) againSoon();
  };

  const fail = (problem) => {
    older = false;
    taken({}, true);
    wrong = problem.message;
  };
  life.watch('operations', {}, {
    status: (doc) => taken(doc, true),
    change: (doc) => taken(doc, false),
    over: (problem) => {
      if (problem.status !== 403 && problem.status !== 404) {
        fail(problem);
        return;
      }
      most = listed;
      life.poll(3000, async (signal) => { // what may be seen is less than the fleet
        const list = [];
        for await (const page of pages('operations', { state: 'Running' }, signal)) {
          list.push(...page);
          if (list.length >= listed) break;
        }
        const lately = await get('operations', { since: '24h', limit: ends }, signal);
        older = Boolean(lately.continue);
        list.push(...lately.items ?? []);
        return list;
      }, (list) => taken(Object.fromEntries(list.map((o) => [runOf(o), o])), true), fail);
    },
  });
  /** moved looks for what the address says. */
  const moved = (to) => {
    search.value = to.query.get('find') ?? '';
    words = search.value.trim().toLowerCase();
    draw();
  };
  moved(at);
  return { moved };
}

const runOf = (o) => o.workflow?.runID ?? o.id;

function stop(o, again) {
  dialog({
    title: [`Stop the ${o.operation} of ${nameOf(o.resource)}`, h('span', { class: 'dim' }, ` ${placeOf(o.resource)}`)], confirm: 'Stop it', danger: true, of: o.resource,
    about: async (signal, explained) => {
      const [words, e] = await Promise.all([stopping(o.resource, signal), explained]);
      if (!e) return { what: [words, h('p', { class: 'warn' }, 'Where it stands could not be found out.')] };
      const run = e.operation?.workflow?.runID;
      if (e.operation?.ended || (run && o.workflow?.runID && run !== o.workflow.runID)) return { never: true, what: h('p', {}, `It has ended. Now: ${e.summary}`) };
      return { what: [words, h('p', {}, `Now: ${e.summary}`)] };
    },
    done: () => act('POST', `${o.resource}/stop`).finally(again), back: () => document.querySelector(`[data-stop="${CSS.escape(o.id)}"]`),
  });
}

const what = (o) => {
  const href = pageOf(o.resource);
  const g = groupOf(o.resource);
  const words = g ? `${g.name}` : nameOf(o.resource);
  return [href ? h('a', { href, class: 'strong' }, words) : h('span', { class: 'strong' }, words), h('span', { class: 'dim' }, g ? ` ${g.project} / ${g.app} ${g.version}` : ` ${o.kind ?? ''}`)];
};

/** tableOf is a table whose lines are kept, see lines; it is hidden while there are none. */
function tableOf(columns, key, said, cells) {
  const body = h('tbody', {});
  const element = scroll(h('table', {}, h('thead', {}, h('tr', {}, columns.map((c) => h(c ? 'th' : 'td', c ? { scope: 'col' } : {}, c)))), body));
  const draw = lines(body, key, said, cells);
  return { element, show: (list) => { element.hidden = !list.length; draw(list); } };
}

/** runningTable is that of running operations: for whom each waits, and since when. */
function runningTable({ said, denied, stopIt, look }) {
  return tableOf(['Of', 'Operation', 'For', 'Waits for', 'Stuck since', 'By', ''], runOf, (o) => JSON.stringify([o, said.get(runOf(o)), denied.get(o.resource)]), (o) => {
    const e = said.get(runOf(o));
    return [
      h('td', {}, what(o)),
      h('td', {}, h('span', { class: 'state is-working' }, icon('working'), h('span', {}, o.detail || o.operation))),
      h('td', {}, when(o.started)),
      h('td', { class: 'long' }, e?.summary ? [h('div', {}, e.summary), reasons(e)] : null, e?.unread ? h('div', { class: 'error' }, `Not read: ${e.unread}`) : null, !e?.summary || e.unread ? lookButton(o, e?.asking, look) : null),
      h('td', {}, stuck(e)),
      h('td', {}, o.requestedBy ?? ''),
      h('td', {}, link(o.workflow?.link, 'run'), ' ', stopButton(o, denied.get(o.resource), stopIt)),
    ];
  });
}

/** lookButton asks what an operation waits for; nobody presses it while that is asked for. */
const lookButton = (o, asking, look) => h('button', { type: 'button', class: 'small', disabled: asking, dataset: { look: o.id }, 'aria-label': `Find out what the ${o.operation} of ${nameOf(o.resource)} waits for`, on: { click: () => look(o) } }, 'Find out');

/** stopButton is there unless one may not know of it; without the right it says so, and who can give it. Nobody presses it before that is known. */
function stopButton(o, denied, stopIt) {
  const no = denied?.stop;
  if (no?.kind === 'NotFound') return null;
  const label = `Stop the ${o.operation} of ${nameOf(o.resource)}`;
  if (no) return h('button', { type: 'button', class: 'small denied', title: no.why, dataset: { stop: o.id }, 'aria-label': label, on: { click: () => told('You may not: Stop', no.why, () => document.querySelector(`[data-stop="${CSS.escape(o.id)}"]`)) } }, icon('lock'), 'Stop');
  return h('button', { type: 'button', class: 'small danger-quiet', disabled: !denied, dataset: { stop: o.id }, 'aria-label': label, on: { click: () => stopIt(o) } }, 'Stop');
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

/** endedTable is that of operations that have ended, each with its run; whose says of what. */
function endedTable(whose) {
  return tableOf([...(whose ? ['Of'] : []), 'Operation', 'State', 'By', 'Began', 'Took', 'Why', 'Run'], runOf, (o) => JSON.stringify(o), (o) => [
    ...(whose ? [h('td', {}, what(o))] : []),
    h('td', {}, o.detail || o.operation),
    h('td', {}, h('span', { class: `state is-${stateOfOperation(o.state)}` }, icon(stateOfOperation(o.state)), h('span', {}, o.state))),
    h('td', {}, o.requestedBy ?? ''), h('td', {}, when(o.started)),
    h('td', {}, o.ended ? span(Math.round((new Date(o.ended) - new Date(o.started)) / 1000)) : ''),
    h('td', { class: 'long' }, o.reason ?? (o.state === 'Unknown' ? 'Not known any more: its owner was deleted.' : '')),
    h('td', {}, link(o.workflow?.link, 'run')),
  ]);
}

/** operationsTable shows a list of them. */
export function operationsTable(list, whose) {
  const table = endedTable(whose);
  table.show(list);
  return table.element;
}
