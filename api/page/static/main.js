// The frame of the page: where one is (the part of the address behind #), who one is, whether what is shown holds.

import { keepToken, refused, token } from './api.js';
import { fill, h, text } from './dom.js';
import { Life } from './life.js';
import { ask, person, whoami } from './login.js';
import { forget } from './rights.js';
import { clock, tick } from './words.js';

/** views by the first word of the address; a view is loaded when it is looked at, or after the first one, see loadAll. */
const views = {
  groups: { title: 'Groups', load: () => part('groups.js') },
  fleet: { title: 'Fleet', load: () => part('fleet.js') },
  operations: { title: 'Operations', load: () => part('operations.js') },
  tenants: { title: 'Tenants', load: () => part('nouns.js').then((m) => m.viewOf('tenants')) },
  rules: { title: 'Rules', load: () => part('nouns.js').then((m) => m.viewOf('rules')) },
  collectors: { title: 'Collectors', load: () => part('nouns.js').then((m) => m.viewOf('collectors')) },
  readiness: { title: 'Readiness', load: () => part('nouns.js').then((m) => m.viewOf('readiness')) },
  audit: { title: 'Audit', load: () => part('audit.js') },
};

const first = 'groups';

const nav = h('nav', { class: 'nav', 'aria-label': 'Parts of the page' });
const banner = h('p', { class: 'banner', role: 'status', hidden: true });
const replaced = h('p', { class: 'banner', role: 'status', hidden: true });
const main = h('main', { id: 'main', tabIndex: -1 });
const live = h('span', { class: 'live', title: 'Whether what is shown is as of now' });
const wentOn = h('span', { class: 'wenton', role: 'status' });
const who = person();

function frame() {
  document.body.replaceChildren( // what was said while the parts of the page were loaded goes
    h('a', { class: 'skip', href: '#main', on: { click: (e) => { e.preventDefault(); main.focus(); } } }, 'To the content'),
    h('div', { class: 'above' },
      h('header', { class: 'top' },
        h('a', { class: 'brand', href: `#/${first}` }, h('span', { class: 'mark', 'aria-hidden': 'true' }), 'Drover'),
        nav,
        h('span', { class: 'right' }, wentOn, live, themeButton(), h('a', { class: 'quiet', href: 'docs/' }, 'API'), who.box)),
      banner, replaced), main);
  for (const [name, v] of Object.entries(views)) nav.append(h('a', { href: `#/${name}`, dataset: { view: name } }, v.title));
}

// Light or dark, as the machine has it, or as is said here.
const themes = ['auto', 'light', 'dark'];

function themeButton() {
  const b = h('button', { class: 'quiet', type: 'button' });
  let now = 'auto';
  try { now = localStorage.getItem('drover.theme') ?? now; } catch { /* the browser may store nothing */ }
  const show = () => {
    document.documentElement.dataset.theme = now;
    fill(b, now === 'auto' ? 'Auto' : now === 'light' ? 'Light' : 'Dark');
    b.setAttribute('aria-label', `Colours: ${now}`);
  };
  b.addEventListener('click', () => {
    now = themes[(themes.indexOf(now) + 1) % themes.length];
    try { localStorage.setItem('drover.theme', now); } catch { /* it lasts until the page is loaded again */ }
    show();
  });
  show();
  return b;
}

const loss = { now: false, how: '', timer: 0 }; // how those have gone on that have said so since: anew, if one of them has

/** told shows whether what is shown holds: it is live, or was read at a time; and after a loss how it has gone on. */
function told({ lost, since, why, live: streamed, read, how }) {
  document.body.classList.toggle('lost', Boolean(lost));
  banner.hidden = !lost;
  if (lost) text(banner, `Not live: ${why}. ${since ? `What is shown is as of ${clock(since)}; trying` : 'Trying'} again.`);
  live.className = `live ${lost ? 'is-lost' : streamed || read ? 'is-live' : ''}`;
  text(live, lost ? 'Not live' : streamed ? 'Live' : read ? `Read ${clock(read)}` : '');
  if (lost && !loss.now) {
    Object.assign(loss, { now: true, how: '' });
    text(wentOn, '');
  }
  if (how && loss.now) { // a loss is all that a page hears of a login that has ended, or of another build of the server
    anybodyElse();
    isReplaced();
  }
  const went = how && how !== 'asked' && (loss.now || wentOn.textContent); // that all is told anew shows after it has gone on, too
  if (went && loss.how !== 'anew') loss.how = how;
  if (lost) return;
  if (loss.how && (loss.now || went)) { // who has gone on last need not be who has read anew
    text(wentOn, loss.how === 'resumed' ? `Went on at ${clock(Date.now())}; nothing was missed` : `All was read anew at ${clock(Date.now())}`);
    clearTimeout(loss.timer);
    loss.timer = setTimeout(() => text(wentOn, ''), 60_000);
  }
  loss.now = loss.now && !loss.how && how === undefined;
}

let life = null;
let shown = { name: '', path: '' };
let current = null;
const tops = new Map(); // how far down each path was looked at

/** odd are words that are no part of a path: with one, an address would be that of another thing than it seems. */
const odd = (word) => word === '.' || word === '..' || /[/\\?#]/.test(word);

/** place reads the address: #/groups/p/a/v1/g?tab=history. */
function place() {
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
  const words = path.split('/').filter(Boolean).map((w) => { try { return decodeURIComponent(w); } catch { return w; } });
  return { name: words[0] ?? first, words: words.slice(1), path: path || first, query: new URLSearchParams(query ?? '') };
}

async function route() {
  if (location.hash && !location.hash.startsWith('#/')) return;
  const to = place();
  if (current?.moved && shown.path === to.path && !life.over) { // the same thing, looked at otherwise
    if (!history.state) history.replaceState({}, '');
    current.moved(to);
    return;
  }
  life?.end();
  life = new Life(told);
  told({});
  const mine = life;
  tops.set(shown.path, scrollY);
  const top = history.state ? tops.get(to.path) : 0; // one comes back, or by a link
  if (!history.state) history.replaceState({}, '');
  shown = to;
  current = null;
  const view = Object.hasOwn(views, to.name) && !to.words.some(odd) ? views[to.name] : null;
  for (const a of nav.children) {
    if (a.dataset.view === to.name) {
      a.setAttribute('aria-current', 'page');
      a.scrollIntoView({ block: 'nearest', inline: 'nearest' }); // a phone has no room for all of them
    } else a.removeAttribute('aria-current');
  }
  if (!view) {
    document.title = 'Not there – Drover';
    fill(main, h('h1', {}, 'There is no such page'), h('p', {}, h('a', { href: `#/${first}` }, 'To the groups')));
    return;
  }
  document.title = `${[...to.words].reverse()[0] ?? view.title} – Drover`;
  try {
    const module = await loaded(view, mine);
    if (mine.over) return;
    fill(main);
    current = module.show(main, to, mine) ?? null;
    setTimeout(loadAll, 1_000); // what is shown has the connections first
  } catch (e) {
    if (mine.over) return;
    console.error(e);
    fill(main, h('h1', {}, 'This part cannot be shown'), h('p', {}, e.message), h('p', {}, 'The server may have another version now: load the page again.'));
    return;
  }
  if (document.activeElement === document.body || !document.body.contains(document.activeElement)) main.focus({ preventScroll: true });
  scrolled(top ?? 0, mine);
}

/** scrolled goes as far down as one was, once what is shown is long enough for it, unless somebody has moved meanwhile. */
function scrolled(top, mine) {
  scrollTo(0, top);
  if (scrollY >= top - 1) return;
  const observer = new ResizeObserver(() => {
    scrollTo(0, top);
    if (scrollY >= top - 1) end();
  });
  const moves = ['wheel', 'touchmove', 'pointerdown', 'keydown'];
  const end = () => {
    observer.disconnect();
    for (const kind of moves) removeEventListener(kind, end);
  };
  for (const kind of moves) addEventListener(kind, end, { passive: true });
  observer.observe(main);
  mine.onEnd(end);
}

const parts = new Map(); // that were imported, by name

/** part imports a part of the page once all of it can be had: an import that failed stays failed for as long as the page is open. */
async function part(name) {
  if (!parts.has(name)) {
    await reached(name, new Set());
    parts.set(name, await import(`./${name}`).catch((e) => { throw new Error(e.message, { cause: e }); })); // no TypeError: it does not go away
  }
  return parts.get(name);
}

/** reached fetches a part and what it imports, into the browser's cache. It throws a TypeError while one of them cannot be had. */
async function reached(name, seen) {
  if (seen.has(name)) return;
  seen.add(name);
  const answer = await fetch(new URL(name, import.meta.url));
  if (!answer.ok) throw new TypeError(`${name}: ${answer.status}`);
  const imports = (await answer.text()).matchAll(/^import .* from '\.\/(.*)';$/gm);
  await Promise.all([...imports].map(([, other]) => reached(other, seen)));
}

/** loaded loads a view, and tries it again and again while the API is away. */
async function loaded(view, mine) {
  for (let wait = 500; ; wait = Math.min(8000, wait * 2)) {
    try {
      const module = await view.load();
      if (!mine.over) told({});
      return module;
    } catch (e) {
      if (mine.over || !(e instanceof TypeError)) throw e; // a mistake of ours does not go away
    }
    fill(main, h('h1', {}, view.title));
    told({ lost: true, why: 'this part of the page cannot be loaded' });
    isReplaced();
    await new Promise((done) => { setTimeout(done, wait); });
  }
}

let all = false; // views were loaded

/** loadAll loads all views, one after the other: the API may be away when somebody wants to look at one. */
async function loadAll() {
  if (all) return;
  all = true;
  try {
    for (const v of Object.values(views)) await v.load();
  } catch {
    all = false;
  }
}

/** isReplaced finds out whether the server has another build of this page by now: of this one it has no part any more, and may answer otherwise. */
async function isReplaced() {
  const mine = import.meta.url.split('/').at(-2);
  const text = await fetch(document.baseURI.replace(/#.*/, ''), { headers: { Accept: 'text/html' }, cache: 'no-cache', redirect: 'error' }).then((a) => (a.ok ? a.text() : ''), () => '');
  if (!/page\/[0-9a-f]{16}\/main\.js/.test(text) || text.includes(`page/${mine}/main.js`) || !replaced.hidden) return;
  fill(replaced, 'Drover was replaced: load the page again. ', h('button', { type: 'button', on: { click: () => location.reload() } }, 'Load'));
  replaced.hidden = false;
}

/** login asks who one is. */
function login(why) {
  life?.end();
  current = null;
  shown = { name: '', path: '' };
  nav.hidden = true;
  who.show(null);
  told({});
  ask(main, why, enter);
}

let asking = false;

let known = false; // the API has known who asks
let self = ''; // who that is
let looking = false;

const signOf = (me) => JSON.stringify([me.kind, me.name, me.by, me.groups]);

/** enter finds out who the API takes us for, and shows where we are. */
async function enter() {
  asking = true;
  forget();
  try {
    const me = await whoami();
    who.show(me);
    self = signOf(me);
    known = true;
  } finally {
    asking = false;
  }
  nav.hidden = false;
  route();
}

/**
 * anybodyElse finds out whether the API takes us for somebody else by now: all tabs have one cookie, and in another tab somebody may have
 * logged in. What is shown then is what that one may see, and what was to be confirmed goes, as by a way to another part of the page.
 */
async function anybodyElse() {
  if (nav.hidden || asking || looking) return;
  looking = true;
  try {
    const me = await whoami();
    if (nav.hidden || asking || signOf(me) === self) return;
    self = signOf(me);
    forget();
    who.show(me);
    life?.end();
    dispatchEvent(new Event('hashchange'));
  } catch { // whatever is shown says so, too
  } finally {
    looking = false;
  }
}

/** ended is why there is nobody any more, as far as there was somebody. */
function ended() {
  const had = token();
  keepToken('');
  if (had) return 'The API does not accept the token any more.';
  return known ? 'Your session has ended: log in again.' : '';
}

async function start() {
  frame();
  history.scrollRestoration = 'manual'; // the browser knows nothing of what is still to be read
  addEventListener('hashchange', () => { if (!nav.hidden) route(); });
  refused.addEventListener('refused', () => {
    if (asking) return;
    // After others were told, too: behind a box that is open the form cannot be got to. Of several answers the first one says it.
    queueMicrotask(() => { if (!nav.hidden) login(ended()); });
  });
  document.addEventListener('visibilitychange', () => { if (!document.hidden) anybodyElse(); });
  setInterval(() => tick(main), 1000);
  nav.hidden = true;
  for (let wait = 500; ; wait = Math.min(8000, wait * 2)) {
    try {
      await enter();
      return;
    } catch (e) {
      if (e.status === 401) {
        login(ended());
        return;
      }
      told({ lost: true, why: e.message });
      await new Promise((done) => { setTimeout(done, wait); });
    }
  }
}

/** fit says whether the browser has what this page uses: Chrome and Edge since 123, Firefox since 124, Safari since 17.5. */
const fit = () => 'any' in AbortSignal && CSS.supports('color', 'light-dark(#000, #fff)');

if (fit()) start();
else document.querySelector('main p').textContent = 'This browser is too old for the page: it takes Chrome or Edge 123, Firefox 124, Safari 17.5, or a later one.';
