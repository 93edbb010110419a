// Operations: a button for each that is allowed now, which says what it will touch before anything is done.

import { act, foresee, get, pages, pathOf, refused } from './api.js';
import { read, showDiff, summary, whole } from './diff.js';
import { fill, h, icon } from './dom.js';
import { count, groupOf, nameOf, placeOf } from './words.js';

/**
 * dialog opens one; about fills what it says, done is called when that is confirmed. Without confirm it only says something. It goes when
 * the page shows something else: what it asks is of what was shown before. Where of names a resource, about gets a promise of its
 * explanation, null where there is none, and nothing is done once that tells of another instance or operation. Where it answers with what
 * was foreseen, see foretold, that is found out again before something is done long after. back finds what has opened it, to which the
 * keyboard goes back: that may have been made anew.
 */
export function dialog({ title, about, confirm, danger, wide, done, of, back }) {
  const said = h('div', { class: 'said' }, h('p', { class: 'dim' }, 'Finding out what it will touch…'));
  const result = h('div', { class: 'said', role: 'alert' });
  const go = h('button', { type: 'button', class: danger ? 'danger' : 'primary', disabled: true, hidden: !confirm }, confirm);
  const no = h('button', { type: 'button' }, confirm ? 'Cancel' : 'Close');
  const box = h('dialog', { class: wide ? 'ask wide' : 'ask', 'aria-labelledby': 'ask-title' }, h('h2', { id: 'ask-title' }, title), said, result, h('div', { class: 'buttons' }, no, go));
  document.body.append(box);
  const control = new AbortController();
  let asking = false; // whether the answer to what was confirmed is still to come
  let left = false; // whether the page shows something else by now
  const close = () => { asking = false; control.abort(); box.close(); };
  box.addEventListener('cancel', (e) => { if (asking) e.preventDefault(); });
  box.addEventListener('close', () => {
    if (asking) { box.showModal(); return; } // a browser lets a cancel be prevented once, and closes it at the second Esc
    control.abort();
    box.remove();
    if (document.activeElement !== document.body) return;
    const to = back?.() ?? document.querySelector('main h1');
    if (to?.tagName === 'H1') to.tabIndex = -1;
    to?.focus({ preventScroll: true });
  });
  no.addEventListener('click', close);
  addEventListener('hashchange', () => { if (asking) left = true; else close(); }, { signal: control.signal });
  refused.addEventListener('refused', close, { signal: control.signal }); // the page asks who one is
  /** answered leaves an answer to be read, and nothing to be confirmed. */
  const answered = () => {
    no.disabled = false;
    no.textContent = 'Close';
    go.remove();
  };
  let body;
  let foreseen = null;
  let seen = null;
  const explain = () => get(`${of}/explain`, { output: 'json' }, control.signal);
  Promise.resolve().then(async () => {
    const explained = of ? explain().catch(() => null) : null;
    const a = await about(control.signal, explained);
    seen = await explained;
    if (control.signal.aborted) return;
    fill(said, a.what);
    ({ body, foreseen } = a);
    go.disabled = Boolean(a.never);
  }).catch((e) => { if (!control.signal.aborted) fill(said, h('p', { class: 'wrong' }, e.message)); });
  /** holds says whether what the box says would still be done, as far as that was found out long ago. */
  const holds = async () => {
    if (!foreseen?.at || Date.now() - foreseen.at < fresh) return true;
    const before = foreseen.sum;
    fill(result, h('p', { class: 'dim' }, 'Finding out whether that is still so…'));
    await foreseen.again();
    if (foreseen.at && foreseen.sum === before) return true;
    if (!foreseen.at) fill(result, h('p', { class: 'warn' }, 'What it would do now could not be found out, and nothing is done yet. Confirm it once more to have it done all the same.'));
    else fill(result, h('p', { class: 'warn' }, 'That is another thing by now, and nothing is done yet. See above what it is, and confirm that.'));
    return false;
  };
  go.addEventListener('click', async () => {
    go.disabled = true;
    try {
      if (!(await holds())) {
        go.disabled = false;
        return;
      }
    } catch (e) {
      if (control.signal.aborted) return;
      fill(result, h('p', { class: 'wrong' }, e.message));
      go.disabled = false;
      return;
    }
    if (control.signal.aborted) return;
    no.disabled = asking = true;
    fill(result, h('p', { class: 'dim' }, 'Asked; waiting for the answer…'));
    let gone = false; // what it asks about
    try {
      const now = seen && await explain().catch(() => null); // in trouble a stop must get through
      if (now && isOther(seen, now)) {
        gone = true;
        throw new Error(`Something else was asked for since this has opened, and nothing is done. Now: ${now.summary}`);
      }
      const answer = await done(body?.());
      asking = false;
      if (answer.warnings.length) {
        fill(result, h('p', {}, 'Accepted, with warnings:'), h('ul', {}, answer.warnings.map((w) => h('li', {}, w))));
        answered();
        return;
      }
      close();
    } catch (e) {
      asking = false;
      fill(result, h('p', { class: 'wrong' }, e.message), e.fields?.length ? h('ul', {}, e.fields.map((f) => h('li', {}, `${f.field}: ${f.message}`))) : null);
      if (left || gone) answered();
      else go.disabled = no.disabled = false;
    }
  });
  box.showModal();
  no.focus();
}

const fresh = 30_000; // for so long what a box says is good to be confirmed

/**
 * foretold is what a box says of what would be done, and what was foreseen: at when, its sum, and again, which finds it out once more and
 * has the box say what is another thing. ask answers with what is said and its sum.
 */
async function foretold(ask) {
  const what = h('div', { class: 'said' });
  const foreseen = {
    sum: undefined,
    again: async () => {
      const at = Date.now();
      const found = await ask();
      if (!foreseen.at || found.sum !== foreseen.sum) fill(what, found.what);
      Object.assign(foreseen, { at, sum: found.sum });
    },
  };
  await foreseen.again();
  return { what, foreseen };
}

/** isOther says whether an explanation tells of another instance or operation than one before; of a run that is not known nothing is said. */
function isOther(before, now) {
  const [a, b] = [before, now].map((e) => e.operation?.workflow ?? {});
  const differ = (x, y) => x && y && x !== y;
  return ['instance', 'state', 'since'].some((m) => before[m] !== now[m]) || differ(a.id, b.id) || differ(a.runID, b.runID);
}

const titles = {
  approve: 'Approve', instantiate: 'Instantiate', update: 'Update', rollback: 'Roll back…', migrate: 'Migrate…', stop: 'Stop', terminate: 'Terminate',
};

const dangerous = new Set(['stop', 'terminate']);

/** what a preview says that would be put where. */
function putWhere(p) {
  const clusters = new Set(p.apps.flatMap((a) => a.clusters.map((c) => c.cluster)));
  const resources = p.apps.reduce((n, a) => n + (a.total ?? a.resources * a.clusters.length), 0); // an older API does not say the total
  return { clusters: clusters.size, resources, apps: p.apps.length };
}

/** unknown stands in for what could not be found out of an operation: it can be asked for all the same, unless it would be refused, too. */
function unknown(e, words, what) {
  if (e.status >= 400 && e.status < 500 && e.status !== 429) throw e;
  return { what: [h('p', {}, words), h('p', { class: 'warn' }, `${what} could not be found out: ${e.message}`)] };
}

/** byPreview says what an approve or instantiate would bring about; words say it where that cannot be found out. */
async function byPreview(key, words, verb, signal) {
  let p;
  try {
    p = await foresee(`${key}/preview`, {}, signal);
  } catch (e) {
    return unknown(e, words, 'What goes where');
  }
  const n = putWhere(p);
  return {
    sum: JSON.stringify([p.apps, p.warnings]),
    what: [
      h('p', { class: 'lead' }, verb(n)),
      h('ul', { class: 'tight' }, p.apps.map((a) => h('li', {}, h('b', {}, a.app), ` on ${count(a.clusters.length, 'cluster')}`, a.differences?.length ? ', some of which get something otherwise' : ''))),
      p.warnings?.length ? [h('p', {}, 'What does not hold, or is missing:'), h('ul', { class: 'tight warn' }, p.warnings.map((w) => h('li', {}, w)))] : null,
    ],
  };
}

/** sumOf is what a difference comes to, with what is shown of it at first. */
const sumOf = (d) => JSON.stringify([d.changes, d.clusters, d.unchanged, d.items]);

/** byDiff says what an operation would change in clusters; words say it where that cannot be found out. */
async function byDiff(key, operation, words, signal) {
  let d;
  try {
    d = await read(key, { operation }, signal);
  } catch (e) {
    return unknown(e, words, 'What that changes');
  }
  return { sum: sumOf(d), what: [h('p', {}, words), h('p', { class: 'lead' }, summary(d)), showDiff(key, { operation }, d, signal)] };
}

/** leaves says whether an instance that there was before may have left something in clusters, which an instantiate takes over. */
const leaves = (e) => Boolean(e?.instance && e.status && e.status !== 'Terminated' && e.status !== 'Updated');

/** there says what of a group may be in clusters, as the API knows it now. */
async function there(key, signal, wait) {
  const status = await get(`${key}/status`, { status: 'deployed', output: 'counts' }, signal, wait);
  const clusters = new Set();
  let resources = 0;
  for (const cell of (status.apps ?? []).flatMap((a) => a.clusters)) {
    let n = 0;
    for (const [state, k] of Object.entries(cell.deployedCounts ?? {})) if (state !== 'Deleted') n += k;
    if (n) clusters.add(`${cell.clusterProvider}+${cell.cluster}`);
    resources += n;
  }
  return { clusters: clusters.size, resources };
}

const hurried = 5_000; // for an answer that a stop does not wait for any longer

/** stopping says what a stop does. In trouble one must get through: where it is not known how much there is, that is said, and no more. */
export async function stopping(key, signal) {
  const words = 'Breaks off the operation that goes on. What is done stays as it is; nothing is taken back.';
  try {
    const n = await there(key, signal, hurried);
    return h('p', { class: 'lead' }, `${words} ${n.resources ? `Up to ${count(n.resources, 'resource')} on ${count(n.clusters, 'cluster')} may be there.` : 'Nothing is known to be in any cluster.'}`);
  } catch (e) {
    return [h('p', { class: 'lead' }, words), h('p', { class: 'warn' }, `How much is in clusters could not be found out: ${e.message}`)];
  }
}

/**
 * buttons are those of the operations that the state allows. group has key and revisions(); changed is called when something was asked
 * for. Of denied, what who looks has no right to, a button says so and who can give it; what one may not know of has none.
 */
export function buttons(may, denied, group, changed) {
  return (may ?? []).filter((op) => titles[op] && denied[op]?.kind !== 'NotFound').map((op) => {
    const why = denied[op]?.why;
    const words = titles[op].replace('\u2026', '');
    if (why) return h('button', { type: 'button', class: 'denied', dataset: { denied: op }, title: why, on: { click: () => told(`You may not: ${words}`, why, () => document.querySelector(`[data-denied=${op}]`)) } }, icon('lock'), words);
    return h('button', {
      type: 'button', class: dangerous.has(op) ? 'danger-quiet' : op === may[0] ? 'primary' : '', dataset: { operation: op },
      on: { click: () => operate(op, group, changed) },
    }, titles[op]);
  });
}

/** told says something that there is nothing to be done about here. */
export function told(title, words, back) {
  dialog({ title, back, about: () => ({ what: h('p', {}, words), never: true }) });
}

/** changing is the difference that is asked for with a choice, anew when that is another one; foreseen is as of foretold. */
function changing(key, choice, query, signal) {
  const box = h('div', {});
  const foreseen = { at: 0 };
  let asking = null;
  foreseen.again = async () => {
    asking?.abort();
    asking = new AbortController();
    const either = AbortSignal.any([signal, asking.signal]);
    const at = Date.now();
    try {
      const d = await read(key, query(), either);
      if (either.aborted) return;
      if (!foreseen.at || foreseen.sum !== sumOf(d)) fill(box, whole(key, query(), d, signal));
      Object.assign(foreseen, { at, sum: sumOf(d) });
    } catch (e) {
      if (either.aborted) return;
      foreseen.at = 0;
      fill(box, h('p', { class: 'wrong' }, e.message));
    }
  };
  const show = () => {
    foreseen.at = 0;
    fill(box, h('p', { class: 'dim' }, 'Rendering, placing and comparing\u2026'));
    foreseen.again();
  };
  choice.addEventListener('change', show);
  show();
  return { box, foreseen };
}

/** otherVersions are the groups of other versions of a group's composite app. */
async function otherVersions(key, signal) {
  const here = groupOf(key.split('/').map(decodeURIComponent).join('/'));
  const found = [];
  for await (const page of pages(`${pathOf('projects', here.project)}/deployment-intent-groups`, {}, signal)) found.push(...page.map((g) => groupOf(g.resource)));
  return found.filter((g) => g.app === here.app && g.version !== here.version);
}

export function operate(op, group, changed, revision) {
  const { key } = group;
  const post = (body) => act('POST', `${key}/${op}`, body).finally(changed);
  const box = (how) => dialog({ ...how, done: post, of: key, back: () => document.querySelector(`[data-operation=${op}]`) });
  const total = (n) => `${count(n.resources, 'resource')} of ${count(n.apps, 'app')} on ${count(n.clusters, 'cluster')}`;
  const path = key.split('/').map(decodeURIComponent).join('/');
  const name = nameOf(path);
  const titled = (words) => [words, h('span', { class: 'dim' }, ` ${placeOf(path)}`)]; // there are others of its name
  switch (op) {
    case 'approve':
      return box({ title: titled(`Approve ${name}`), confirm: 'Approve', about: (s) => foretold(() => byPreview(key, 'Renders and places the group, and applies nothing yet.', (n) => `Nothing is applied yet. An instantiate will then put ${total(n)}.`, s)) });
    case 'instantiate':
      return box({ title: titled(`Instantiate ${name}`), confirm: 'Instantiate', wide: true, about: async (s, explained) => {
        const left = leaves(await explained);
        return foretold(() => (left
          ? byDiff(key, op, 'What an earlier terminate has left in clusters is taken over: applies what is new or differs, then deletes what is not wanted any more.', s)
          : byPreview(key, 'Puts into clusters what is described now.', (n) => `Puts ${total(n)}.`, s)));
      } });
    case 'update':
      return box({
        title: titled(`Update ${name}`), confirm: 'Update', wide: true,
        about: (s) => foretold(() => byDiff(key, op, 'Brings clusters in line with what is described now: applies what is new or differs, then deletes what is not wanted any more.', s)),
      });
    case 'terminate':
      return box({
        title: titled(`Terminate ${name}`), confirm: 'Terminate', danger: true,
        about: (signal) => foretold(async () => {
          let n;
          try {
            n = await there(key, signal);
          } catch (e) {
            return unknown(e, 'Deletes what the group has in clusters.', 'How much that is');
          }
          return { sum: JSON.stringify(n), what: h('p', { class: 'lead' }, n.resources ? `Deletes up to ${count(n.resources, 'resource')} on ${count(n.clusters, 'cluster')}.` : 'Nothing is known to be in any cluster; they are asked all the same.') };
        }),
      });
    case 'stop':
      return box({
        title: titled(`Stop what ${name} is at`), confirm: 'Stop it', danger: true,
        about: async (signal) => ({ what: await stopping(key, signal) }),
      });
    case 'rollback': {
      const revisions = group.revisions();
      const choice = h('select', { id: 'revision' }, revisions.map((r) => h('option', { value: String(r.revision) }, `${r.revision}: ${r.operation ?? 'instantiate'}, ${new Date(r.time).toLocaleString()}`)));
      if (revision !== undefined) choice.value = String(revision);
      return box({
        title: titled(`Roll back ${name}`), confirm: 'Roll back', danger: true, wide: true,
        about: (signal) => {
          if (!revisions.length) return { never: true, what: h('p', {}, 'There is no earlier revision.') };
          const { box: changes, foreseen } = changing(key, choice, () => ({ operation: 'rollback', revision: choice.value }), signal);
          return {
            what: [h('p', {}, h('label', { for: 'revision' }, 'To revision '), choice),
              h('p', { class: 'dim' }, 'Applies in all clusters what that revision had, and deletes what it did not have. What describes the group stays as it is, so that the next update brings it back to that.'),
              changes],
            body: () => ({ metadata: { description: 'from the page' }, spec: { revision: choice.value } }), foreseen,
          };
        },
      });
    }
    case 'migrate': {
      const choice = h('select', { id: 'to-group' });
      const chosen = () => ({ version: choice.value.split('/')[0], group: choice.value.split('/')[1] });
      return box({
        title: titled(`Migrate ${name}`), confirm: 'Migrate', danger: true, wide: true,
        about: async (signal) => {
          const others = await otherVersions(key, signal);
          if (!others.length) return { never: true, what: h('p', {}, 'There is no group of another version of the composite app that it could be migrated to.') };
          fill(choice, others.map((g) => h('option', { value: `${g.version}/${g.name}` }, `${g.version} / ${g.name}`)));
          const { box: changes, foreseen } = changing(key, choice, () => ({ operation: 'migrate', ...chosen() }), signal);
          return {
            what: [h('p', {}, h('label', { for: 'to-group' }, 'To the group '), choice),
              h('p', { class: 'dim' }, 'It has to be approved, and takes over what is in clusters: what is new or differs is applied, then what that group does not want is deleted.'),
              changes],
            body: () => ({ metadata: { description: 'from the page' }, spec: { targetCompositeAppVersion: chosen().version, targetDeploymentIntentGroup: chosen().group } }), foreseen,
          };
        },
      });
    }
    default:
      return undefined;
  }
}
