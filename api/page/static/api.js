// The API as this page asks it: requests, and streams that are resumed where they broke off.

import { seat } from './seats.js';

const tokenKey = 'drover.token';

let given = ''; // the token, as long as the page is open

/**
 * token is what this tab has been given, '' for nothing. It is in no cookie: those go to every port of a host. A browser that may store
 * nothing for the page throws, and a token lasts until the page is loaded again.
 */
export const token = () => { try { return sessionStorage.getItem(tokenKey) ?? ''; } catch { return given; } };

export function keepToken(text) {
  given = text;
  try {
    if (text) sessionStorage.setItem(tokenKey, text);
    else sessionStorage.removeItem(tokenKey);
  } catch { /* see token */ }
}

/** Problem is an answer that is none, as the API words it; status is 0 where nobody has answered. */
export class Problem extends Error {
  constructor(status, detail, more = {}) {
    super(detail);
    Object.assign(this, { status, kind: more.kind ?? '', fields: more.errors ?? [], requestID: more.requestID ?? '' });
  }
}

/** refused is told when the API wants to know who asks. */
export const refused = new EventTarget();

let ahead = 0; // by how much the API's clock is ahead of this machine's, where that is more than a few seconds
const few = 5_000;

/** now is what the API's clock says, by which the times in its answers are. */
export const now = () => Date.now() + ahead;

/** heed compares the clocks by an answer, which was made between when it was asked for and now, and says so in whole seconds. */
function heed(date, asked) {
  const made = Date.parse(date ?? '');
  if (Number.isNaN(made)) return;
  const [least, most] = [made - Date.now(), made + 1000 - asked];
  const may = (difference) => difference > least - few && difference < most + few;
  if (!may(ahead)) ahead = may(0) ? 0 : (least + most) / 2;
}

/** exact leaves a whole number with which a browser cannot count as it is written, where the browser tells: that is shown, and sent, so. */
const exact = (_, value, of) => (Number.isInteger(value) && !Number.isSafeInteger(value) && of?.source && JSON.rawJSON ? JSON.rawJSON(of.source) : value);

/** read makes a document of what the API says. Its numbers are looked at one by one only where one may be so large: a document has megabytes. */
const read = (words) => (/\d{16}/.test(words) ? JSON.parse(words, exact) : JSON.parse(words));

const patience = 45_000; // for an answer: the API has 30 s, after up to 10 s for a slot
const longest = 95_000; // for one that something is done, or rendered, for: the API has 80 s, after as much

/** pathOf makes a path of words: each stays one part of it, whatever is in it. */
export const pathOf = (...words) => words.map(encodeURIComponent).join('/');

function urlOf(path, query) {
  const url = new URL(`v2/${path}`, document.baseURI.replace(/#.*/, ''));
  if (!url.pathname.endsWith(`/v2/${path}`)) throw new Problem(400, `${path} is not the path of one thing`);
  for (const [name, value] of Object.entries(query ?? {})) {
    for (const one of [value].flat()) if (one !== undefined && one !== '') url.searchParams.append(name, one);
  }
  return url;
}

const elsewhere = 'something before the API answers in its place, and may want a login: load the page again';

/** send asks, and answers with what is said if that is no problem; body is a document, or text is that of another type. */
async function send(method, path, { query, body, text, type, signal, headers, wait }) {
  const h = { Accept: 'application/json', ...headers };
  const sent = token();
  if (sent) h.Authorization = `Bearer ${sent}`;
  if (body !== undefined || text !== undefined) h['Content-Type'] = type ?? 'application/json';
  const signals = [signal, wait && AbortSignal.timeout(wait)].filter(Boolean);
  const url = urlOf(path, query);
  const asked = Date.now();
  let answer;
  try {
    answer = await fetch(url, {
      method, headers: h, cache: 'no-store', credentials: 'same-origin', redirect: 'manual',
      body: text ?? (body === undefined ? undefined : JSON.stringify(body)), signal: signals.length ? AbortSignal.any(signals) : undefined,
    });
  } catch (e) {
    if (signal?.aborted) throw e;
    throw new Problem(0, e.name === 'TimeoutError' ? 'the API does not answer' : 'the API cannot be reached');
  }
  heed(answer.headers.get('Date'), asked);
  const page = /^text\/html/i.test(answer.headers.get('Content-Type') ?? ''); // of a proxy: the API has none here
  if (answer.type === 'opaqueredirect' || (page && answer.status < 500)) throw new Problem(0, elsewhere);
  if (page) throw new Problem(answer.status, `the API cannot be reached: what is before it answers ${answer.status}`);
  if (answer.ok) return answer;
  let said = {};
  const words = await answer.text().catch(() => '');
  try { said = JSON.parse(words) ?? {}; } catch { said = { detail: words.slice(0, 500) }; }
  if (answer.status === 401 && !said.kind) throw new Problem(0, elsewhere); // a form for tokens would not help
  if (answer.status === 401 && sent === token()) refused.dispatchEvent(new Event('refused'));
  throw new Problem(answer.status, said.detail || answer.statusText || `status ${answer.status}`, said);
}

/** ask asks for something that takes its time. */
export const ask = (method, path, options) => send(method, path, { wait: longest, ...options });

/** get answers with what is at a path below /v2. */
export async function get(path, query, signal, wait = patience) {
  const answer = await send('GET', path, { query, signal, wait });
  return answer.status === 204 ? null : read(await answer.text());
}

/** evaluate answers with what a document in YAML comes to at a path below /v2. */
export async function evaluate(path, text, signal) {
  return read(await (await send('POST', path, { text, type: 'application/yaml', signal, wait: longest })).text());
}

/** foresee is get for what the API renders and places first, which takes as long as an approve does. */
export const foresee = (path, query, signal) => get(path, query, signal, longest);

/** pages gives all items of a list, page by page. */
export async function* pages(path, query, signal) {
  let next;
  do {
    const list = await get(path, { limit: 1000, ...query, continue: next }, signal);
    yield list.items ?? [];
    next = list.continue;
  } while (next);
}

/** unquoted is a text that Go has quoted: beside what JSON knows it writes \x1b, \U0001f600, \a and \v. */
function unquoted(text) {
  const plain = text.replace(/\\(?:U([0-9a-f]{8})|x([0-9a-f]{2})|([av])|.)/g, (as, long, short, bell) => {
    if (long) return String.fromCodePoint(parseInt(long, 16));
    if (short) return `\\u00${short}`;
    return bell ? ' ' : as;
  });
  try { return JSON.parse(plain); } catch { return text; }
}

/** act asks for something to be done; it answers with the warnings that came with the answer, and what that says. */
export async function act(method, path, body, query) {
  const answer = await send(method, path, { body, query, wait: longest });
  const warnings = (answer.headers.get('Warning') ?? '').match(/"(?:[^"\\]|\\.)*"/g) ?? [];
  const text = await answer.text();
  let said = null;
  try { said = read(text); } catch { /* an answer without a document */ }
  return { said, warnings: warnings.map(unquoted) };
}

const quiet = 40_000; // the server says something every 15 s
const hiddenFor = 30_000; // then a tab that nobody sees gives its connection back: a browser has six for a host
const shortest = 500;
const most = 8_000;
const between = 5_000; // two turns of a stream that has no connection of its own
const turnFor = 500; // so long nothing has come: a turn has read all that is new
const turnEnough = 2_000; // once what it says holds: where there is always more, others have their turns, too
const turnWithin = 30_000; // an event that has not come whole until then is lost

/**
 * watch reads a stream. handlers: status(document), change(change), live(how) when what was said holds again, read(when, how) when it
 * did at a time and will be asked for again, lost(why, as of when, if anything was said), over(why) when it will not go on. how is
 * 'resumed' where it has gone on after the last event that was read, and 'anew' where all was told anew. It connects again by itself,
 * after the event that it has read last. Where other tabs have the connections, it reads what is new in turns with others: read is told at
 * the end of a turn, as a part of an event says nothing yet, and how only in the first one after a loss.
 */
export function watch(path, query, handlers) {
  let closed = false;
  let last = '';
  let failures = 0;
  let control = null;
  let timer = 0;
  let pausing = 0;
  let paused = false;
  let spoken = 0; // when the server has sent anything last
  let holds = false; // whether what it has said is as of then
  let heard; // when it was so last
  let before = false; // whether it has said anything before
  let resuming = false; // whether it was asked to go on, and has said nothing yet: what is shown is from before
  let kept = false; // whether it has a connection of its own, and no turn
  let turnEnds = 0;
  let settles = 0;
  let part = false; // whether of an event a part has come: what is shown is from before it
  let told = false; // whether it was said to be live
  let since = 0; // when what it says in this turn began to hold
  let went = ''; // how it has gone on in this turn
  let missed = false; // whether it was lost, and has not held since

  /** drop gives the connection back, if there is one. */
  const drop = () => {
    clearTimeout(timer);
    clearTimeout(turnEnds);
    clearTimeout(settles);
    const now = control;
    control = null;
    now?.abort();
    chair.end();
  };
  /** pass drops it until the next turn. */
  const pass = () => {
    drop();
    timer = setTimeout(run, (before ? between : 200) * (0.75 + Math.random() / 2));
  };
  const chair = seat(() => {
    const keeps = chair.keeps();
    if (closed || paused || keeps === kept) return;
    if (!control) { // it waits for its turn, or until it tries again after a loss
      if (keeps && !failures) { clearTimeout(timer); run(); }
    } else if (keeps) { // in its turn: it goes on
      kept = true;
      clearTimeout(turnEnds);
      chair.end();
      whole();
      settle();
    } else {
      kept = false;
      pass();
      if (holds) handlers.read?.(heard);
    }
  });

  const again = (why) => {
    if (closed || paused) return;
    drop();
    missed = true;
    handlers.lost?.(why, heard);
    const wait = Math.min(most, shortest * 2 ** failures) * (0.75 + Math.random() / 2);
    failures = Math.min(failures + 1, 10);
    timer = setTimeout(run, wait);
  };
  const over = (why) => { close(); handlers.over?.(why); };
  const holding = (how) => {
    if (!holds) since = Date.now();
    holds = true;
    went = how;
    if (kept) live(how);
    else if (how !== 'resumed') heard = spoken; // as of when the whole of it was told
  };
  const live = (how) => {
    told = true;
    held(() => handlers.live?.(how));
  };
  /** whole notes that all that has come was shown. */
  const whole = () => {
    if (!holds || !kept || part) return;
    heard = spoken;
    if (!told) live(missed ? went : undefined);
  };
  /** held notes that what was said is as of when the server has spoken last. */
  const held = (tell) => {
    heard = spoken;
    failures = 0;
    tell();
    missed = false;
  };
  /** turned ends a turn in which all that is new was read. */
  const turned = () => {
    pass();
    held(() => handlers.read?.(heard, missed ? went : undefined));
  };
  /**
   * settle waits until nothing more comes. Then what was asked to go on has nothing that is new, and a turn ends; it never does within an
   * event, which would be told again from its beginning in each turn.
   */
  const settle = () => {
    clearTimeout(settles);
    if (part || (holds ? kept : !resuming)) return;
    settles = setTimeout(() => {
      if (!holds) holding('resumed');
      if (!kept) turned();
    }, holds && Date.now() - since >= turnEnough ? 0 : turnFor);
  };
  const silent = () => Date.now() - spoken > quiet; // by the clock: a machine that sleeps has no timers

  /** take handles an event; it says whether the stream goes on. */
  const take = (kind, id, data) => {
    if (kind === 'status' || kind === 'change') {
      try {
        handlers[kind]?.(JSON.parse(data));
      } catch (e) { // a mistake of ours: nothing that is shown can be relied on
        console.error(e);
        over(new Problem(0, 'This page cannot show what the API says.'));
        return false;
      }
      if (id) last = id;
      if (!holds || (resuming && kind === 'status')) holding(resuming && kind === 'change' ? 'resumed' : before ? 'anew' : '');
      before = true;
      resuming = false;
      return true;
    }
    if (kind !== 'end' && kind !== 'error' && kind !== 'dropped') return true;
    let said = {};
    try { said = JSON.parse(data); } catch { /* what it says is for people */ }
    last = '';
    if (kind === 'end' && said.kind === 'NotFound') over(new Problem(404, said.reason));
    else if (kind === 'error' && ['Invalid', 'NotFound', 'Forbidden'].includes(said.kind)) over(new Problem(400, said.reason));
    else again(said.reason || 'the stream has ended');
    return false;
  };

  async function run() {
    if (closed || paused) return;
    clearTimeout(timer);
    kept = chair.keeps();
    if (!kept && !chair.begin()) {
      timer = setTimeout(run, 200 + Math.random() * 400);
      return;
    }
    const mine = new AbortController();
    control = mine;
    holds = false;
    part = resuming = told = false;
    spoken = Date.now();
    if (!kept) turnEnds = setTimeout(() => { if (holds && !part) turned(); else mine.abort(); }, turnWithin);
    const alarm = setInterval(() => { if (silent()) mine.abort(); }, 1000);
    try {
      const answer = await send('GET', path, {
        query: { ...query, watch: 'true' }, signal: mine.signal, headers: { Accept: 'text/event-stream, application/json', ...(last && { 'Last-Event-ID': last }) },
      });
      spoken = Date.now();
      resuming = Boolean(last); // what follows is what has changed since
      settle();
      const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
      let rest = '';
      let from = 0;
      for (;;) {
        const { value, done } = await reader.read();
        if (control !== mine) return;
        if (done) break;
        spoken = Date.now();
        rest += value;
        for (let end; (end = rest.indexOf('\n\n', from)) >= 0; from = 0) {
          const block = rest.slice(0, end);
          rest = rest.slice(end + 2);
          let kind = '';
          let id = '';
          let data = '';
          for (const line of block.split('\n')) {
            if (line.startsWith('event: ')) kind = line.slice(7);
            else if (line.startsWith('id: ')) id = line.slice(4);
            else if (line.startsWith('data: ')) data = line.slice(6);
          }
          if (kind && !take(kind, id, data)) { mine.abort(); return; }
        }
        from = Math.max(0, rest.length - 1);
        part = rest !== '';
        whole();
        settle();
      }
      again('the connection has ended');
    } catch (e) {
      if (control !== mine) return; // it was given back
      if (e instanceof Problem && [400, 401, 403, 404].includes(e.status)) over(e);
      else again(e instanceof Problem ? e.message : 'the connection is lost');
    } finally {
      clearInterval(alarm);
    }
  }

  const pause = () => {
    paused = true;
    drop();
    chair.leave();
    missed = true;
    handlers.lost?.('paused while nobody looks', heard);
  };
  const seen = () => {
    clearTimeout(pausing);
    if (document.hidden) {
      pausing = setTimeout(pause, hiddenFor);
    } else if (paused) {
      paused = false;
      chair.enter();
      run();
    } else if (silent()) {
      control?.abort();
    }
  };
  const online = () => { if (!closed && !paused && failures) { drop(); run(); } };
  document.addEventListener('visibilitychange', seen);
  addEventListener('online', online);

  function close() {
    closed = true;
    clearTimeout(pausing);
    drop();
    chair.leave();
    document.removeEventListener('visibilitychange', seen);
    removeEventListener('online', online);
  }
  if (document.hidden) { // opened to be looked at later
    pause();
  } else {
    chair.enter();
    run();
  }
  return close;
}
