// The life of what is shown: what it reads ends with it, and whether what it shows holds is said at the top of the page.

import { Problem, get, watch } from './api.js';

const grace = 10_000; // an answer that is later than that is missed
const slowly = 10_000; // between two questions where the last one was refused

/** Life is that of one view. */
export class Life {
  #ends = new Set(); // what ends with it; what ends before is in it no more
  #control = new AbortController();
  #sources = new Map(); // why a source is lost, null while it is live
  #read = new Map(); // of those that are asked again and again: when they were answered last
  #told;

  /**
   * told is called with { lost, since, why, live, read, how } whenever that changes: live is whether there is a stream that goes on; read
   * is when what is asked for now and then was answered, where there is no stream; how is how a source has gone on that was lost: a stream
   * resumed or anew, what is asked for now and then asked.
   */
  constructor(told) { this.#told = told; }

  get signal() { return this.#control.signal; }
  get over() { return this.#control.signal.aborted; }

  end() {
    if (this.over) return;
    this.#control.abort();
    this.#endAll();
    this.#sources.clear();
    this.#read.clear();
    this.#tell();
  }

  /** clear ends all that is read, and what is shown may read something else. */
  clear() {
    if (this.over) return;
    this.#control.abort();
    this.#control = new AbortController();
    this.#endAll();
    this.#sources.clear();
    this.#read.clear();
    this.#tell();
  }

  #endAll() {
    for (const f of this.#ends) f();
    this.#ends.clear();
  }

  onEnd(f) { this.#ends.add(f); }

  /** #say notes that a source is live, or why it is lost and as of when what it has said is, if it has said anything. */
  #say(source, why, since, how) {
    if (this.over) return;
    this.#sources.set(source, why === null ? null : { why, since });
    this.#tell(how);
  }

  /** #drop forgets a source: nothing more is to come from it. */
  #drop(source) {
    this.#read.delete(source);
    if (this.#sources.delete(source) && !this.over) this.#tell();
  }

  #tell(how) {
    const lost = [...this.#sources.values()].filter(Boolean).sort((a, b) => (a.since ?? Infinity) - (b.since ?? Infinity))[0];
    const read = Math.min(...this.#read.values());
    this.#told({ lost: Boolean(lost), ...lost, live: this.#sources.size > this.#read.size, read: Number.isFinite(read) ? read : undefined, how });
  }

  /** watch reads a stream as long as the view lives. back is called when it goes on after a loss, with when it was lost. */
  watch(path, query, handlers) {
    const source = Symbol(path);
    let gone = 0; // when it was lost, 0 while it is not
    const back = () => {
      const since = gone;
      gone = 0;
      if (since) handlers.back?.(since);
    };
    const close = watch(path, query, {
      status: (d) => { if (!this.over) handlers.status(d); },
      change: (d) => { if (!this.over) handlers.change(d); },
      live: (how) => { this.#read.delete(source); this.#say(source, null, undefined, how); back(); },
      read: (at, how) => { this.#read.set(source, at); this.#say(source, null, undefined, how); back(); },
      lost: (why, since) => { gone ||= Date.now(); this.#say(source, why, since); },
      over: (problem) => { this.#drop(source); if (!this.over) handlers.over(problem); },
    });
    const end = () => { close(); this.#ends.delete(end); this.#drop(source); };
    this.#ends.add(end);
    return end;
  }

  /**
   * poll asks again and again, every so many milliseconds, and at once when what it returns is called; its end ends it before the
   * view does. take gets the answer; refused what is wrong, where asking again may not help, and is done slowly. It does not ask while nobody
   * looks: what is shown does not hold then, until it is answered after that.
   */
  poll(every, ask, take, refused) {
    const source = Symbol('poll');
    let heard; // when it was answered last
    let due = Date.now() + grace; // when an answer is missed
    let timer = 0;
    let going = false;
    let anew = false;
    let ended = false;
    const round = async () => {
      if (this.over || ended) return;
      if (document.hidden) {
        this.#say(source, 'paused while nobody looks', heard);
        return;
      }
      going = true;
      anew = false;
      let pause = every;
      clearTimeout(timer);
      try {
        const answer = await ask(this.signal);
        if (this.over || ended) return;
        take(answer);
        if (this.over || ended) return;
        heard = Date.now();
        this.#read.set(source, heard);
        due = heard + every + grace;
        this.#say(source, null, undefined, this.#sources.get(source) ? 'asked' : undefined);
      } catch (e) {
        if (this.over || ended) return;
        if (e instanceof Problem && e.status >= 400 && e.status < 500 && e.status !== 429 && refused) {
          due = Infinity;
          this.#drop(source);
          refused(e);
          pause = Math.max(every, slowly);
        } else {
          if (!(e instanceof Problem)) console.error(e);
          this.#say(source, e.message, heard);
        }
      } finally {
        going = false;
      }
      if (!this.over && !ended) timer = setTimeout(round, anew ? 50 : pause);
    };
    const again = () => {
      if (going) { anew = true; return; }
      clearTimeout(timer);
      timer = setTimeout(round, 50);
    };
    const missed = () => { if (Date.now() > due && !this.#sources.get(source)) this.#say(source, 'the API does not answer', heard); };
    const seen = () => {
      if (document.hidden) return;
      missed();
      if (going) return;
      clearTimeout(timer);
      round();
    };
    const clock = setInterval(missed, 1000);
    document.addEventListener('visibilitychange', seen);
    again.end = () => {
      ended = true;
      clearTimeout(timer);
      clearInterval(clock);
      document.removeEventListener('visibilitychange', seen);
      this.#ends.delete(again.end);
      this.#drop(source);
    };
    this.#ends.add(again.end);
    round();
    return again;
  }

  /** each returns what has a function called with the next frame, once, however often it is asked for before that. */
  each(f) {
    let frame = 0;
    this.#ends.add(() => cancelAnimationFrame(frame));
    return () => { frame ||= requestAnimationFrame(() => { frame = 0; if (!this.over) f(); }); };
  }

  /** every calls a function again and again. */
  every(milliseconds, f) {
    const timer = setInterval(f, milliseconds);
    this.#ends.add(() => clearInterval(timer));
  }

  /** listen listens as long as the view lives. */
  listen(target, kind, f, options) {
    target.addEventListener(kind, f, { ...options, signal: this.signal });
  }

  get(path, query) { return get(path, query, this.signal); }
}
