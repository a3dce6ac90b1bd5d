// node bench.mjs
//
// Compares, in one run and in turn, what the solver can work with on one thread, and
// says how evenly challenges are solved. Absolute figures are this machine's alone.
import {load, newToken, Worker} from './harness.mjs';

const TURNS = 200, SOLVES = 100, PARTS = 32, BITS = 16;

const stile = load();
const [wasm, plain] = stile.solvers[1].ways.map(make => make());
const seed = crypto.getRandomValues(new Uint8Array(32));

// A rate is in hashes a second. 24 bits: in a few milliseconds practically none is found.
function rate(search, count) {
  const began = performance.now();
  for (let done = 0; done < count;) {
    const n = search(seed, 24, 1, done, count - done);
    done = n < 0 ? count : n + 1;
  }
  return count / (performance.now() - began) * 1000;
}

async function subtleRate(count) {
  const message = new Uint8Array(40), view = new DataView(message.buffer);
  message.set(seed);
  const began = performance.now();
  for (let n = 0; n < count; n++) {
    view.setUint32(36, n);
    await crypto.subtle.digest('SHA-256', message);
  }
  return count / (performance.now() - began) * 1000;
}

const sorted = list => [...list].sort((a, b) => a - b);
// undisturbed is the rate that only a tenth of the turns exceed: of short turns, the ones
// in which nobody else has used the machine.
const undisturbed = list => sorted(list)[Math.floor(list.length * 0.9)];
const mean = list => list.reduce((a, b) => a + b, 0) / list.length;
const spread = list => Math.sqrt(mean(list.map(x => (x - mean(list)) ** 2))) / mean(list);
const percent = x => `${(100 * x).toFixed(1)} %`;
const millions = x => `${(x / 1e6).toFixed(x < 1e6 ? 3 : 1)} MH/s`;

async function rates() {
  const a = [], b = [], c = [];
  for (let i = -10; i < TURNS; i++) { // the first ten warm the compilers up
    const turn = [rate(wasm, 30_000), rate(plain, 6_000), await subtleRate(100)];
    if (i >= 0) [a, b, c].forEach((list, n) => list.push(turn[n]));
  }
  const [fast, slow, subtle] = [a, b, c].map(undisturbed);
  console.log(`one thread, ${TURNS} short turns each, undisturbed:`);
  console.log(`  WebAssembly                    ${millions(fast)}`);
  console.log(`  plain JavaScript               ${millions(slow)}`);
  console.log(`  crypto.subtle, one at a time   ${millions(subtle)}`);
  console.log(`  WebAssembly / JavaScript       ${(fast / slow).toFixed(1)}, want at least 4`);
  console.log(`  JavaScript / crypto.subtle     ${(slow / subtle).toFixed(1)}, want at least 10`);
}

// hashes counts what a challenge takes, without a clock.
function hashes() {
  const token = crypto.getRandomValues(new Uint8Array(32));
  let count = 0;
  for (let part = 0; part < PARTS; part++) count += wasm(token, BITS, part, 0, 2 ** 31) + 1;
  return count;
}

// milliseconds is the time of one solve, by the clock and by the processor: the second is
// what remains of the first on a machine that others use too.
async function milliseconds(script) {
  const began = performance.now(), used = process.cpuUsage();
  await stile.solve({algorithm: 1, token: newToken(), bits: BITS, parts: PARTS, script});
  const {user, system} = process.cpuUsage(used);
  return {wall: performance.now() - began, cpu: (user + system) / 1000};
}

async function solves() {
  const counted = [], here = [], shared = [];
  for (let i = -3; i < SOLVES; i++) {
    const count = hashes(), ms = await milliseconds();
    if (i >= 0) counted.push(count), here.push(ms);
  }
  globalThis.Worker = Worker; // new ones for each solve, as in a page
  for (let i = -3; i < SOLVES; i++) {
    const ms = await milliseconds('any');
    if (i >= 0) shared.push(ms);
  }
  const line = (list, unit) => `mean ${mean(list).toFixed(0)} ${unit}, standard deviation ${percent(spread(list))}, slowest ${(Math.max(...list) / mean(list)).toFixed(2)} times it`;
  console.log(`${SOLVES} challenges of ${PARTS} parts of ${BITS} bits, want a standard deviation of at most 25 %:`);
  console.log(`  hashes                         ${line(counted, 'hashes')}`);
  console.log(`  time on one thread             ${line(here.map(t => t.wall), 'ms')}`);
  console.log(`  processor time on one thread   ${line(here.map(t => t.cpu), 'ms')}`);
  console.log(`  time with workers              ${line(shared.map(t => t.wall), 'ms')}`);
}

await rates();
await solves();
