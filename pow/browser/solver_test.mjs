// node --expose-internals solver_test.mjs (pow/browser_test.go runs it)
import assert from 'node:assert/strict';
import {createHash} from 'node:crypto';
import {readFileSync} from 'node:fs';
import {createRequire} from 'node:module';
import {test} from 'node:test';
import {newToken, page, script, Worker} from './harness.mjs';

const vectors = JSON.parse(readFileSync(new URL('../testdata/vectors.json', import.meta.url), 'utf8'));

// holds is the puzzle's definition, by somebody else's SHA-256.
function holds(seed, bits, part, nonce) {
  const message = Buffer.alloc(40);
  Buffer.from(seed).copy(message);
  message.writeUInt32BE(part, 32);
  message.writeUInt32BE(nonce, 36);
  return createHash('sha256').update(message).digest().readUInt32BE() < 2 ** (32 - bits);
}

function check(token, bits, parts, from, solution) {
  const seed = Buffer.from(token, 'base64url').subarray(-32);
  const nonces = Buffer.from(solution);
  assert.equal(nonces.length, 4 * (parts - from));
  for (let part = from; part < parts; part++) {
    assert.ok(holds(seed, bits, part, nonces.readUInt32BE(4 * (part - from))), `part ${part}`);
  }
}

// solves runs one challenge and returns the progress that was reported.
async function solves(stile, {bits = 6, parts = 32, from = 0, script} = {}) {
  const token = newToken(), progress = [];
  const onprogress = (done, all) => progress.push(`${done}/${all}`);
  const solution = await stile.solve({algorithm: 1, token, bits, parts, from, script, onprogress});
  check(token, bits, parts, from, solution);
  return progress;
}

const noWasm = {
  missing: undefined,
  forbidden: {Module: function () { throw new WebAssembly.CompileError('Content Security Policy'); }},
  lying: {
    Module: function () {},
    Instance: function () { this.exports = {memory: {buffer: new ArrayBuffer(65536)}, search: () => -1}; },
  },
};

test('every way finds the first nonce of the vectors', () => {
  const ways = page().solvers[1].ways;
  assert.equal(ways.length, 2);
  for (const make of ways) {
    const search = make();
    for (const {seed, bits, part, nonce} of vectors.puzzles) {
      const bytes = Buffer.from(seed, 'hex');
      assert.equal(search(bytes, bits, part, 0, 1 << 20), nonce, `${make.name} ${seed} ${part}`);
      if (nonce > 3) assert.equal(search(bytes, bits, part, 0, nonce & ~3), -1);
    }
  }
});

test('the seed of a token', async () => {
  let solved = 0;
  for (const {token, seed, error, challenge} of vectors.tokens) {
    if (error || challenge.Kind !== 1 || challenge.Bits > 8) continue;
    assert.equal(Buffer.from(token, 'base64url').subarray(-32).toString('hex'), seed);
    check(token, challenge.Bits, challenge.Parts, 0, await page().solve(
      {algorithm: challenge.Algorithm, token, bits: challenge.Bits, parts: challenge.Parts}));
    solved++;
  }
  assert.ok(solved >= 2);
});

test('nonces and parts at the edges of 32 bits', () => {
  const seed = createHash('sha256').update('edges').digest();
  for (const make of page().solvers[1].ways) {
    const search = make();
    for (const part of [0, 1, 1023, 2 ** 31, 2 ** 32 - 1]) {
      for (const start of [2 ** 31 - 512, 2 ** 31, 2 ** 32 - 1024]) {
        const nonce = search(seed, 5, part, start, 1024);
        assert.ok(nonce >= start && nonce < start + 1024, `${make.name} ${part} ${start}: ${nonce}`);
        for (let n = start; n <= nonce; n++) assert.equal(holds(seed, 5, part, n), n === nonce);
      }
    }
  }
});

test('progress counts parts', async () => {
  assert.deepEqual(await solves(page(), {parts: 4}), ['1/4', '2/4', '3/4', '4/4']);
});

test('more parts of the same challenge', async () => {
  assert.deepEqual(await solves(page(), {from: 30, parts: 34}), ['31/34', '32/34', '33/34', '34/34']);
});

test('the most parts', async () => {
  assert.equal((await solves(page(), {bits: 1, parts: 1024})).length, 1024);
});

test('WebAssembly is used where it works, and done without where not', async () => {
  assert.equal(page().solvers[1].ways[0].name, 'wasm');
  page().solvers[1].ways[0](); // does not throw
  for (const [name, WebAssembly] of Object.entries(noWasm)) {
    const stile = page({WebAssembly});
    assert.throws(stile.solvers[1].ways[0], undefined, name);
    assert.equal((await solves(stile)).length, 32, name);
  }
});

test('workers share the parts', async () => {
  assert.equal((await solves(page({Worker, navigator: {hardwareConcurrency: 3}}), {bits: 12, script: 'x'})).length, 32);
});

// Fake is a worker in a test's hands: it is there, and does nothing.
class Fake {
  static made = [];
  constructor() { Fake.made.push(this); this.sent = []; }
  postMessage(job) { this.sent.push(job); }
  terminate() { this.ended = true; }
}

// answering returns what makes a Fake do one job, by the solver's own plain loop.
function answering(stile) {
  const search = stile.solvers[1].ways[1]();
  return (worker, job) => {
    const nonce = search(job.seed, job.bits, job.part, job.start, job.count);
    worker.onmessage({data: {nonce, ms: 1}});
  };
}

test('how many workers', async () => {
  const threads = [[undefined, 2], [0, 2], [1.5, 1], [512, 8], [NaN, 2], [-3, 2], ['4', 4], [Infinity, 8], [3, 3], [{}, 2]];
  for (const [hardwareConcurrency, want] of threads) {
    Fake.made = [];
    const stile = page({Worker: Fake, navigator: {hardwareConcurrency}});
    const solution = stile.solve({algorithm: 1, token: newToken(), bits: 1, parts: 32, script: 'x'});
    assert.equal(Fake.made.length, want, String(hardwareConcurrency));
    Fake.made.forEach(w => w.onerror());
    await solution;
  }
  Fake.made = [];
  const stile = page({Worker: Fake, navigator: {hardwareConcurrency: 8}});
  const solution = stile.solve({algorithm: 1, token: newToken(), bits: 1, parts: 3, script: 'x'});
  assert.equal(Fake.made.length, 3, 'no more workers than parts');
  Fake.made.forEach(w => w.onerror());
  await solution;
  Fake.made = [];
  const old = page({Worker: Fake}).solve({algorithm: 1, token: newToken(), bits: 1, parts: 32, script: 'x'});
  assert.equal(Fake.made.length, 2, 'no navigator');
  Fake.made.forEach(w => w.onerror());
  await old;
});

test('no workers at all', async () => {
  assert.equal((await solves(page())).length, 32);
  assert.equal((await solves(page(), {script: 'x'})).length, 32);
  const Worker = function () { throw new Error('SecurityError'); };
  assert.equal((await solves(page({Worker}), {script: 'x'})).length, 32);
});

test('workers that fail to load, and that die at work', async () => {
  for (const answers of [0, 1, 5]) {
    Fake.made = [];
    const stile = page({Worker: Fake, navigator: {hardwareConcurrency: 2}}), reply = answering(stile);
    const token = newToken();
    const solution = stile.solve({algorithm: 1, token, bits: 4, parts: 32, script: 'x'});
    for (let i = 0; i < answers; i++) Fake.made.forEach(w => reply(w, w.sent.at(-1)));
    Fake.made[0].onerror();
    assert.ok(Fake.made[0].ended);
    Fake.made[0].onerror(); // twice is once
    reply(Fake.made[0], Fake.made[0].sent.at(-1)); // the dead are not listened to
    assert.equal(Fake.made[0].sent.length, answers + 1);
    Fake.made[1].onerror();
    check(token, 4, 32, 0, await solution);
  }
});

test('silent workers: this thread helps after two seconds, and late ones are welcome', async () => {
  const timers = [];
  const clock = {setInterval: (f, ms) => timers.push({f, ms}), clearInterval: id => { timers[id - 1].ended = true; }};
  Fake.made = [];
  const stile = page({Worker: Fake, navigator: {hardwareConcurrency: 2}, ...clock}), reply = answering(stile);
  const token = newToken(), progress = [];
  const solution = stile.solve({algorithm: 1, token, bits: 10, parts: 32, script: 'x', onprogress: done => progress.push(done)});
  assert.deepEqual(timers.map(t => t.ms), [2000]);
  timers[0].f();
  reply(Fake.made[0], Fake.made[0].sent[0]);
  assert.equal(Fake.made[0].sent.length, 2);
  check(token, 10, 32, 0, await solution);
  assert.equal(progress.at(-1), 32);
  assert.ok(timers[0].ended && Fake.made.every(w => w.ended), 'nothing is left running');
});

test('busy workers are left to it', async () => {
  const timers = [];
  const clock = {setInterval: f => timers.push(f), clearInterval() {}};
  Fake.made = [];
  let here = 0;
  class Channel extends MessageChannel { constructor() { super(); here++; } }
  const stile = page({Worker: Fake, navigator: {hardwareConcurrency: 1}, MessageChannel: Channel, ...clock}), reply = answering(stile);
  const solution = stile.solve({algorithm: 1, token: newToken(), bits: 4, parts: 32, script: 'x'});
  const worker = Fake.made[0];
  for (let i = 0; !worker.ended; i++) {
    reply(worker, worker.sent[i]);
    timers[0]();
  }
  await solution;
  assert.equal(here, 0);
});

test('the last part is searched by all, at different places', async () => {
  Fake.made = [];
  const stile = page({Worker: Fake, navigator: {hardwareConcurrency: 2}});
  const solution = stile.solve({algorithm: 1, token: newToken(), bits: 1, parts: 2, script: 'x'});
  const [a, b] = Fake.made;
  assert.deepEqual([a.sent[0].part, b.sent[0].part], [0, 1]);
  a.onmessage({data: {nonce: 0, ms: 1}});
  assert.equal(a.sent[1].part, 1);
  assert.ok(a.sent[1].start >= b.sent[0].start + b.sent[0].count);
  b.onmessage({data: {nonce: 5, ms: 1}});
  assert.deepEqual([...await solution], [0, 0, 0, 0, 0, 0, 0, 5]);
  assert.ok(a.ended && b.ended);
});

test('slices follow the clock, whatever clock it is', () => {
  const count = (rate, tick) => { // nonces a ms, resolution in ms: the longest slice, the last
    Fake.made = [];
    const stile = page({Worker: Fake, navigator: {hardwareConcurrency: 1}, setInterval() {}, clearInterval() {}});
    stile.solve({algorithm: 1, token: newToken(), bits: 24, parts: 1, script: 'x'});
    const worker = Fake.made[0];
    let now = 0, longest = 0, last = 0;
    for (let i = 0; i < 200; i++) {
      const began = now;
      last = worker.sent[i].count / rate;
      now += last;
      longest = Math.max(longest, last);
      const ms = tick ? Math.floor(now / tick) * tick - Math.floor(began / tick) * tick : 0;
      worker.onmessage({data: {nonce: -1, ms}});
      assert.equal(worker.sent[i + 1].count % 4, 0);
      assert.ok(worker.sent[i + 1].count > 0);
    }
    return {longest, last};
  };
  for (const rate of [5, 100, 1000, 3000, 13000]) {
    const fine = count(rate, 0.005);
    assert.ok(fine.last <= 21 && (fine.last >= 10), `${rate}: ${fine.last} ms`);
    assert.ok(rate < 20 || fine.longest <= 30, `${rate}: ${fine.longest} ms`);
    const coarse = count(rate, 100);
    assert.ok(coarse.longest < 210, `${rate}, 100 ms clock: ${coarse.longest} ms`);
  }
  assert.ok(count(1000, 0).longest <= 263, 'a clock that stands still');
});

test('a challenge that makes no sense is refused', async () => {
  const good = {algorithm: 1, token: newToken(), bits: 1, parts: 1};
  const bad = [{algorithm: 2}, {algorithm: undefined}, {bits: 0}, {bits: 25}, {bits: 1.5}, {bits: NaN}, {bits: '3x'},
    {parts: 0}, {parts: 1025}, {parts: undefined}, {from: 1}, {from: -1}, {token: ''}, {token: 'AAAA'}, {token: '%%%%'}, {token: undefined}];
  const stile = page();
  await stile.solve(good);
  for (const change of bad) {
    await assert.rejects(stile.solve({...good, ...change}), undefined, JSON.stringify(change));
  }
});

test('a solver that breaks down here is an error, not silence', async () => {
  const stile = page();
  stile.solvers[1].ways.length = 0;
  stile.solvers[1].ways.push(() => { throw new Error('out of order'); });
  await assert.rejects(stile.solve({algorithm: 1, token: newToken(), bits: 1, parts: 1}), /out of order/);
});

test('a progress bar that throws does not stop the work', async () => {
  Fake.made = [];
  const stile = page({Worker: Fake, navigator: {hardwareConcurrency: 1}}), reply = answering(stile);
  const solution = stile.solve({algorithm: 1, token: newToken(), bits: 1, parts: 3, script: 'x', onprogress() { throw new Error('bar'); }});
  const worker = Fake.made[0];
  for (let i = 0; i < 3; i++) assert.throws(() => reply(worker, worker.sent[i]), /bar/);
  await solution;
});

test('licence markers and the language of old browsers', async t => {
  assert.match(script, /^\/\/ @license magnet:\?xt=urn:btih:d3d9a9a6595521f9666a5e94cc830dab83b65699&dn=expat\.txt Expat\n/);
  assert.match(script, /\n\/\/ @license-end\n$/);
  let parse;
  try {
    // node's own parser; run with --expose-internals to reach it.
    ({parse} = createRequire(import.meta.url)('internal/deps/acorn/acorn/dist/acorn'));
  } catch (e) {
    return t.skip('this node does not lend its parser');
  }
  parse(script, {ecmaVersion: 8}); // ES2017
});
