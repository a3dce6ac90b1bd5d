// @license magnet:?xt=urn:btih:d3d9a9a6595521f9666a5e94cc830dab83b65699&dn=expat.txt Expat
//
// The challenge page's script; it follows the solver's in one file. It solves, hands
// the solution in, asks whether the browser kept the pass, and reloads the page: the
// address, its query and its fragment stay. It stops with a message and a button
// rather than ever going round in circles. On the "very busy" page it only reloads,
// later. ES2017, no build step: the daemon only drops the comments.
(function () {
  'use strict';

  if (typeof document === 'undefined') return; // in a worker

  const LOOPS = 3; // reloads that led to another challenge before we stop
  const MINUTE = 60e3;
  const UNREACHABLE = new Error('unreachable');
  const script = (document.currentScript || {}).src; // for the workers

  let data, words, area, status, way;
  let bar, percent; // while solving
  let solution = new Uint8Array(0), solved = 0;
  let busy = false; // solving, or talking to the site
  let over = false; // the pass is here
  let began = Date.now();

  function start() {
    const block = document.getElementById('data');
    if (!block) return; // the loader may have fetched this file twice
    block.remove();
    data = JSON.parse(block.textContent);
    addEventListener('pageshow', restored);
    addEventListener('pagehide', leave);
    if (data.retry) return retry();
    words = data.words;
    area = document.getElementById('js');
    status = area.firstChild;
    way = document.getElementById('way');
    way.remove();
    listen();
    if (!data.prove && !foreign() && recent().length >= LOOPS) return stop(words.loop, button(fresh));
    document.addEventListener('visibilitychange', function () {
      if (!document.hidden && !busy) check();
    });
    run();
  }

  // retry: a hidden page waits until somebody looks at it, no two come at once, and
  // who has come in vain comes later the next time.
  function retry() {
    const tries = memory().tries;
    const wait = Math.min(data.retry << Math.min(tries.length, 3), Math.max(data.retry, 120)) * (1e3 + 500 * Math.random());
    const said = document.getElementById('wait');
    if (said && tries.length) said.remove(); // it would be too short
    const again = function () {
      if (document.hidden) return document.addEventListener('visibilitychange', again, {once: true});
      remember({tries: tries.concat(Date.now() + MINUTE + 2 * wait)});
      location.reload();
    };
    setTimeout(again, wait);
  }

  // restored: Back or Forward has brought this page back to life as it was left.
  async function restored(event) {
    if (!event.persisted) return;
    if (data.retry) return location.reload();
    if (data.prove && over) return;
    over = false;
    if (!await check()) run();
  }

  // ---- solving ----

  async function run() {
    if (busy || over) return;
    if (foreign()) return embedded();
    busy = true;
    began = Date.now();
    let end;
    const ended = new Promise(function (resolve) {
      end = resolve;
    });
    show();
    const slow = setTimeout(function () {
      say(words.slow);
    }, 8e3);
    try {
      await turn(ended);
      const beat = setInterval(renew, 1e3, LEASE);
      try {
        await prove();
      } finally {
        clearInterval(beat);
      }
    } catch (e) {
      if (over) return;
      if (e !== UNREACHABLE) return fail();
      stop(words.network, button(run));
      detour(); // it may be a policy that lets no script of ours ask anything
    } finally {
      clearTimeout(slow);
      busy = false;
      end();
      leave();
    }
  }

  async function prove() {
    while (!over) {
      if (solved < data.parts) {
        const more = await stile.solve({
          algorithm: data.algorithm, token: data.token, bits: data.bits, parts: data.parts,
          from: solved, script: script, onprogress: progress
        });
        const both = new Uint8Array(solution.length + more.length);
        both.set(solution);
        both.set(more, solution.length);
        solution = both;
        solved = data.parts;
      }
      if (over) return;
      const [code, answer] = await reach(post);
      if (over) return;
      if (code === 200) return finish();
      if (code === 402 && answer.parts > solved) { // the price has risen meanwhile
        data.parts = answer.parts;
        say(words.more);
      } else if (code === 410 && !memory().expired) {
        remember({expired: Date.now() + MINUTE});
        over = true;
        location.reload();
      } else if (code === 429) {
        return stop(words.ceiling + ' ' + words.waiting.replace('{t}', time(answer.retry)), button(fresh));
      } else {
        return fail();
      }
    }
  }

  // finish: without the pass a reload would only bring the next challenge.
  async function finish() {
    if (await reach(passed)) {
      tell();
      go();
    } else {
      stop(words.cookies, button(fresh));
    }
  }

  // foreign: another site shows us in a frame, however deep. It could have its visitors
  // work for passes that they do not want, so nobody works there. Nor does anybody in
  // a sandbox without an origin, whom the site would not hear.
  function foreign() {
    if (origin === 'null') return true;
    try {
      for (let w = self; w !== top; w = w.parent) {
        if (w.parent.origin !== origin) return true;
      }
    } catch (e) { // not ours to look at
      return true;
    }
    return false;
  }

  function embedded() {
    const link = action('a', words.new_tab);
    link.href = location.href;
    link.target = '_blank';
    link.rel = 'noopener';
    stop(words.frame, link);
  }

  function go() {
    over = true;
    if (data.prove) return stop(words.done);
    show();
    bar.value = 1;
    say(words.done);
    // A long solve is remembered for longer, or slow loops would never be noticed.
    const now = Date.now();
    remember({loops: recent().concat(now + MINUTE + 4 * (now - began))});
    location.reload();
    // Still here after a while: it was a download, or it takes very long.
    setTimeout(stop, 30e3, words.done, button(fresh));
  }

  function fail() {
    stop(words.failed, button(fresh));
    detour();
  }

  // detour shows the way without JavaScript, if there is one.
  function detour() {
    if (!way.querySelector('[href^="/"]')) return;
    way.id = '';
    area.after(way);
  }

  // fresh begins again on the visitor's own wish.
  function fresh() {
    remember({loops: [], expired: 0});
    location.reload();
  }

  // ---- the site ----

  // reach repeats what fails for want of an answer.
  async function reach(ask) {
    for (let wait = 1e3; ; wait *= 2) {
      try {
        return await Promise.race([ask(), pause(20e3).then(function () {
          throw UNREACHABLE;
        })]);
      } catch (e) {
        if (over || wait > 8e3) throw UNREACHABLE;
        await pause(wait);
      }
    }
  }

  async function post() {
    const r = await fetch('/.stile/proof', {
      method: 'POST',
      credentials: 'same-origin',
      headers: {'Content-Type': 'application/json'},
      body: JSON.stringify({
        token: data.token,
        solution: btoa(String.fromCharCode.apply(null, solution)).replace(/\+/g, '-').replace(/\//g, '_').replace(/=/g, '')
      })
    });
    if (r.status >= 500) throw UNREACHABLE;
    return [r.status, await r.json()];
  }

  async function passed() {
    const r = await fetch('/.stile/pass', {credentials: 'same-origin', cache: 'no-store'});
    if (r.status !== 204 && r.status !== 403) throw UNREACHABLE;
    return r.status === 204;
  }

  // check ends the wait if the pass has come from elsewhere.
  async function check() {
    const yes = await passed().catch(function () {});
    if (yes && !over) go();
    return yes;
  }

  // ---- the other tabs ----

  // Tabs that are challenged together need one solution, not one each: one leads and
  // works, the others try again and again to lead. Who gives up, or is closed, leads no
  // longer. Nobody waits for ever, whatever goes wrong here.
  const PATIENCE = 20e3, LEASE = 5e3;
  const LEADER = 'stile-leader', PASS = 'stile-pass'; // in localStorage
  const me = Math.random() + ' ';
  let channel;

  function listen() {
    try {
      channel = new BroadcastChannel('stile');
      channel.onmessage = check;
    } catch (e) {
      // Old browsers: they find out when it is their turn.
    }
  }

  // tell lets the others know of a pass: those that listen, and those that do not yet.
  function tell() {
    shelf(PASS, Date.now());
    if (channel) channel.postMessage(1);
  }

  async function turn(ended) {
    if (document.hidden) await pause(300); // one that is looked at goes first
    await Promise.race([lead(ended), pause(PATIENCE)]);
    // A pass that came after this page was asked for; clocks may tick in steps of 100 ms.
    const age = Date.now() - shelf(PASS);
    if (!over && age >= 0 && age + 100 < performance.now()) await check();
  }

  // lead resolves once this tab leads, which it does until ended resolves.
  async function lead(ended) {
    while (busy && !over && !await (navigator.locks ? lock(ended) : claim())) await pause(200);
  }

  function lock(ended) {
    return new Promise(function (resolve) {
      navigator.locks.request('stile', {ifAvailable: true}, function (held) {
        resolve(held);
        return held && ended;
      }).catch(resolve);
    });
  }

  // claim: plain http has no locks. Who still finds his own claim after a while has no
  // rival that had not seen it (Fischer's algorithm, in Lamport's "A fast mutual
  // exclusion algorithm" of 1987). Without storage each tab is for itself.
  async function claim() {
    const other = shelf(LEADER);
    if (other && !mine(other) && current(other.split(' ')[1])) return false;
    renew(LEASE);
    await pause(150);
    return mine(shelf(LEADER) || me);
  }

  function mine(claim) {
    return claim.startsWith(me);
  }

  function renew(lease) {
    if (!navigator.locks) shelf(LEADER, me + (Date.now() + lease));
  }

  function leave() {
    if (mine(shelf(LEADER) || '')) renew(0);
  }

  function shelf(key, value) {
    try {
      if (value) localStorage.setItem(key, value);
      return localStorage.getItem(key);
    } catch (e) { // no storage
    }
  }

  // ---- what the visitor sees ----

  function say(text) {
    if (status.textContent !== text) status.textContent = text;
  }

  function clear() {
    while (area.lastChild !== status) area.lastChild.remove();
  }

  function show() {
    clear();
    way.remove();
    say(words.work);
    bar = document.createElement('progress');
    bar.setAttribute('aria-labelledby', 'title');
    percent = document.createElement('p');
    percent.setAttribute('role', 'status');
    area.append(bar, percent);
  }

  let told = 0;
  function progress(done, all) {
    bar.max = all;
    bar.value = done;
    // Read out to those who cannot see the bar: now and then, not at each step.
    const now = Date.now();
    if (now - Math.max(told, began) < 5e3) return;
    told = now;
    percent.textContent = (done / all).toLocaleString(document.documentElement.lang, {style: 'percent'});
  }

  function stop(text, next) {
    clear();
    say(text);
    if (next) area.append(next);
  }

  function action(kind, text) {
    const e = document.createElement(kind);
    e.className = 'act';
    e.textContent = text;
    return e;
  }

  function button(press) {
    const b = action('button', words.again);
    b.onclick = press;
    return b;
  }

  // time: in seconds, in minutes, or in hours. As in page.go.
  function time(s) {
    const unit = s < 90 ? 0 : s < 5400 ? 1 : 2;
    return words.units[unit].replace('{n}', Math.ceil(s / [1, 60, 3600][unit]));
  }

  function pause(ms) {
    return new Promise(function (resolve) {
      setTimeout(resolve, ms);
    });
  }

  // ---- what this tab remembers ----

  // {loops: when each late reload is forgotten, expired: the same for an expired
  // challenge, tries: for each reload of a busy page}. The history entry remembers where sessionStorage is forbidden; it
  // survives a reload, too.
  function memory() {
    let m;
    try {
      m = JSON.parse(sessionStorage.getItem('stile'));
    } catch (e) {
      m = (history.state || {}).stile;
    }
    m = Object(m);
    return {
      loops: [].concat(m.loops || []).filter(current),
      tries: [].concat(m.tries || []).filter(current),
      expired: current(m.expired)
    };
  }

  function current(until) {
    return until > Date.now() && until < Date.now() + 30 * MINUTE;
  }

  function recent() {
    return memory().loops;
  }

  function remember(change) {
    const m = Object.assign(memory(), change);
    try {
      sessionStorage.setItem('stile', JSON.stringify(m));
    } catch (e) {
      history.replaceState(Object.assign({}, history.state, {stile: m}), '');
    }
  }

  if (document.readyState === 'loading') document.addEventListener('DOMContentLoaded', start);
  else start();
})();
// @license-end
