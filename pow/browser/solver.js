// @license magnet:?xt=urn:btih:d3d9a9a6595521f9666a5e94cc830dab83b65699&dn=expat.txt Expat
//
// stile's solver: finds the nonces that a challenge asks for. The same file is the
// page's script and its workers' script; in a worker it only answers messages.
//
//   stile.solve({algorithm, token, bits, parts, from, script, onprogress})
//     algorithm, bits, parts   what the challenge page says
//     token       the challenge; its last 32 bytes are the seed
//     from        parts that are solved already (default 0), after "more parts"
//     script      address of this file, for workers (default: no workers)
//     onprogress  called with (parts done, parts) after every part
//   resolves to a Uint8Array: the nonces of parts from … parts-1, in order,
//   big-endian; rejects with an Error when the challenge makes no sense.
//
// It takes what there is: workers or this thread, WebAssembly or plain JavaScript.
// It needs no crypto.subtle (absent on plain http) and no BigInt. ES2017, no build
// step: the daemon only drops the comments and puts sha256.wasm in.
(function (root) {
  'use strict';

  // Written by the daemon in place of the name: sha256.wasm in base64.
  const WASM = 'SHA256_WASM';

  // A slice is what a thread does before it listens again: long enough that
  // messages cost nothing, short enough that a page which has no workers stays
  // alive and that little is wasted when another thread is first.
  const SLICE_MS = 20;
  const FIRST_SLICE = 512; // nonces; 25 ms even without a compiler (20,000 a second)
  const MAX_SLICE = 1 << 18; // holds also where the clock stands still

  // Nobody has answered for so long: this thread helps.
  const SILENCE_MS = 2000;

  const MAX_THREADS = 8; // more of them only heat a phone
  const MAX_PARTS = 1024;

  // ---- SHA-256 (FIPS 180-4), one block ----

  // The constants are the first 32 bits of the fractions of the cube and square roots
  // of the first primes. A double has 18 bits to spare for the worst of them.
  const K = new Int32Array(64), H = new Int32Array(8);
  for (let n = 2, count = 0; count < 64; n++) {
    let divisor = 2;
    while (n % divisor) divisor++;
    if (divisor < n) continue;
    if (count < 8) H[count] = fraction(Math.sqrt(n));
    K[count++] = fraction(Math.pow(n, 1 / 3));
  }

  function fraction(x) {
    return (x - Math.floor(x)) * 4294967296 | 0;
  }

  // rounds does rounds begin … end-1 on one state and leaves the result in another.
  function rounds(w, begin, end, from, to) {
    let a = from[0], b = from[1], c = from[2], d = from[3], e = from[4], f = from[5], g = from[6], h = from[7];
    for (let i = begin; i < end; i++) {
      const t = h + ((e >>> 6 | e << 26) ^ (e >>> 11 | e << 21) ^ (e >>> 25 | e << 7)) +
        (g ^ e & (f ^ g)) + K[i] + w[i] | 0;
      const u = ((a >>> 2 | a << 30) ^ (a >>> 13 | a << 19) ^ (a >>> 22 | a << 10)) + (a & b ^ c & (a ^ b));
      h = g; g = f; f = e; e = d + t | 0; d = c; c = b; b = a; a = t + u | 0;
    }
    to[0] = a; to[1] = b; to[2] = c; to[3] = d; to[4] = e; to[5] = f; to[6] = g; to[7] = h;
  }

  // Inside a part only word 9 of the block differs. prepare sets the others, and
  // does the rounds before it, rounded down to the eight of sha256.c's loop.
  const w = new Int32Array(64), middle = new Int32Array(8), state = new Int32Array(8);
  function prepare(seed, part) {
    for (let i = 0; i < 8; i++) {
      w[i] = seed[4 * i] << 24 | seed[4 * i + 1] << 16 | seed[4 * i + 2] << 8 | seed[4 * i + 3];
    }
    w[8] = part;
    w[9] = 0;
    w[10] = 1 << 31;
    w[15] = 320; // bits
    rounds(w, 0, 8, H, middle);
  }

  // A search function tries the nonces start … start+count-1 of a part and returns
  // the first that holds, or -1. Each function here makes one, or throws.

  function plain() {
    return function (seed, bits, part, start, count) {
      prepare(seed, part);
      for (let n = start; n < start + count; n++) {
        w[9] = n;
        for (let i = 16; i < 64; i++) {
          const x = w[i - 15], y = w[i - 2];
          w[i] = w[i - 16] + w[i - 7] + ((x >>> 7 | x << 25) ^ (x >>> 18 | x << 14) ^ x >>> 3) +
            ((y >>> 17 | y << 15) ^ (y >>> 19 | y << 13) ^ y >>> 10);
        }
        rounds(w, 8, 64, middle, state);
        if (state[0] + H[0] >>> 32 - bits === 0) return n;
      }
      return -1;
    };
  }

  // Throws without WebAssembly, without its SIMD, and where the site's policy
  // forbids it (Content-Security-Policy without 'wasm-unsafe-eval').
  function wasm() {
    const code = new WebAssembly.Module(bytes(WASM));
    const {memory, search} = new WebAssembly.Instance(code).exports;
    const words = new Int32Array(memory.buffer); // laid out in sha256.c
    words.set(K, 16);
    const find = function (seed, bits, part, start, count) {
      prepare(seed, part);
      words.set(middle, 80);
      words.set(w.subarray(0, 16), 88);
      const index = search(start, count, 32 - bits);
      return index < 0 ? -1 : start + index;
    };
    // Better slow than wrong: an engine that does not agree with the plain loop is
    // left alone.
    const seed = new Uint8Array(32);
    if (find(seed, 6, 1, 0, 1024) !== plain()(seed, 6, 1, 0, 1024)) throw new Error('WebAssembly miscounts');
    return find;
  }

  // ---- the puzzles, by algorithm ----

  // ways: makers of search functions, the fastest first; nonce: bytes in a solution.
  const solvers = {
    1: {ways: [wasm, plain], nonce: 4, maxBits: 24}
  };

  // ready returns the fastest search function that works here, once made.
  function ready(solver) {
    for (let i = 0; !solver.search; i++) {
      try {
        solver.search = solver.ways[i]();
      } catch (e) {
        if (i + 1 >= solver.ways.length) throw e;
      }
    }
    return solver.search;
  }

  // work does one slice, in a worker or here: in and out are messages.
  function work(job) {
    const search = ready(solvers[job.algorithm]);
    const began = performance.now();
    const nonce = search(job.seed, job.bits, job.part, job.start, job.count);
    return {nonce, ms: performance.now() - began};
  }

  // ---- sharing the work out ----

  function solve(options) {
    return new Promise(function (resolve, reject) {
      const algorithm = options.algorithm, bits = options.bits, parts = options.parts, from = options.from || 0;
      const solver = solvers[algorithm];
      if (!solver) throw new Error('unknown puzzle: ' + algorithm);
      whole(bits, 1, solver.maxBits);
      whole(parts, 1, MAX_PARTS);
      whole(from, 0, parts - 1);
      const seed = bytes(options.token).slice(-32);
      if (seed.length < 32) throw new Error('token too short');

      const solution = new Uint8Array((parts - from) * solver.nonce);
      const open = []; // parts that are not solved
      for (let part = from; part < parts; part++) open.push({part, next: 0, hands: 0});

      // A hand is a worker, or this thread in the same clothes.
      let hands = [], here = false, answers = 0, seen = 0;

      // next gives a hand its next slice, of the part that the fewest are at, so that
      // the last parts are searched by all of them, at different places. Nobody waits
      // for a slice: what a dead worker has not looked at is just left out.
      function next(hand) {
        hand.at = open.reduce((best, p) => p.hands < best.hands ? p : best);
        hand.at.hands++;
        hand.postMessage({algorithm, seed, bits, part: hand.at.part, start: hand.at.next, count: hand.count});
        hand.start = hand.at.next;
        hand.at.next += hand.count;
      }

      function answer(hand, result) {
        if (!hands.includes(hand)) return; // one more slice from a hand that was given up
        answers++;
        const at = hand.at, hit = result.nonce >= 0;
        at.hands--;
        pace(hand, hit ? result.nonce - hand.start + 1 : hand.count, result.ms);
        const i = open.indexOf(at), solved = hit && i >= 0; // else another hand was first
        if (solved) {
          open.splice(i, 1);
          put(solution, (at.part - from) * solver.nonce, solver.nonce, result.nonce);
        }
        if (open.length) {
          next(hand);
        } else {
          end();
          resolve(solution);
        }
        if (solved && options.onprogress) options.onprogress(parts - open.length, parts); // last: it may throw
      }

      function add(hand) {
        hand.count = FIRST_SLICE;
        hand.tried = hand.ms = 0;
        hand.onmessage = e => answer(hand, e.data);
        hand.onerror = () => remove(hand); // not loaded, forbidden by policy, or broken
        hands.push(hand);
        next(hand);
      }

      function remove(hand) {
        if (!hands.includes(hand)) return;
        hands = hands.filter(h => h !== hand);
        hand.at.hands--;
        hand.terminate();
        if (!hands.length) help();
      }

      function help() {
        if (here) return;
        here = true;
        add(thisThread(function (e) {
          end();
          reject(e);
        }));
      }

      const watch = setInterval(function () {
        if (answers === seen) help();
        seen = answers;
      }, SILENCE_MS);

      function end() {
        clearInterval(watch);
        const all = hands;
        hands = [];
        all.forEach(h => h.terminate());
      }

      try {
        for (let i = Math.min(threads(), open.length); i > 0 && options.script; i--) add(new Worker(options.script));
      } catch (e) {
        // No workers here. The next line does without.
      }
      if (!hands.length) help();
    });
  }

  // pace sets how many nonces a hand tries next, from its own rate. Clocks may be as
  // coarse as 100 ms (fingerprinting protection): only sums are ever looked at.
  function pace(hand, tried, ms) {
    hand.tried += tried;
    hand.ms += ms;
    const wanted = hand.ms > 0 ? Math.min(hand.count * 4, hand.tried / hand.ms * SLICE_MS) : hand.count * 2;
    hand.count = Math.max(64, Math.min(MAX_SLICE, wanted)) & ~3; // four lanes
    if (hand.ms > 500) { // what was long ago counts half: engines get faster as they go
      hand.ms /= 2;
      hand.tried /= 2;
    }
  }

  // thisThread looks like a worker and works between two events of the page. Messages
  // come sooner than timers, and are not slowed down in the background.
  function thisThread(fail) {
    const channel = new MessageChannel();
    let job;
    const hand = {
      postMessage: function (j) {
        job = j;
        channel.port2.postMessage(0);
      },
      terminate: function () {
        channel.port1.close();
      }
    };
    channel.port1.onmessage = function () {
      try {
        hand.onmessage({data: work(job)});
      } catch (e) {
        fail(e);
      }
    };
    return hand;
  }

  // ---- small things ----

  // threads: navigator.hardwareConcurrency has been seen as undefined, 0, 1.5 and 512.
  function threads() {
    const n = Math.floor(Number(root.navigator && root.navigator.hardwareConcurrency));
    return n >= 1 ? Math.min(n, MAX_THREADS) : 2;
  }

  function whole(n, min, max) {
    if (!(n >= min && n <= max && n === Math.floor(n))) throw new Error('not from ' + min + ' to ' + max + ': ' + n);
  }

  // bytes decodes base64, in either alphabet.
  function bytes(text) {
    return Uint8Array.from(atob(text.replace(/-/g, '+').replace(/_/g, '/')), c => c.charCodeAt(0));
  }

  // put writes n as size big-endian bytes.
  function put(to, at, size, n) {
    while (size--) {
      to[at + size] = n % 256;
      n = Math.floor(n / 256);
    }
  }

  if (typeof WorkerGlobalScope !== 'undefined' && root instanceof WorkerGlobalScope) {
    root.onmessage = e => root.postMessage(work(e.data));
  } else {
    root.stile = {solve, solvers};
  }
})(typeof self === 'undefined' ? globalThis : self);
// @license-end
