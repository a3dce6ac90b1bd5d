// Runs the browser's solver in node, for solver_test.mjs and bench.mjs.
import {readFileSync} from 'node:fs';
import {createContext, runInContext, runInThisContext} from 'node:vm';
import * as threads from 'node:worker_threads';

const file = name => new URL(name, import.meta.url);

// script is what the daemon serves, but for its comments.
export const script = readFileSync(file('solver.js'), 'utf8')
  .replace('SHA256_WASM', readFileSync(file('sha256.wasm')).toString('base64'));

// load runs the script in this very context, at full speed.
export function load() {
  runInThisContext(script, {filename: 'solver.js'});
  return globalThis.stile;
}

// page runs the script in a context of its own, as a page that has nothing but these
// globals besides the language: what is not there cannot be used unnoticed.
export function page(globals = {}) {
  const context = createContext({performance, atob, MessageChannel, setInterval, clearInterval, ...globals});
  runInContext('delete globalThis.BigInt', context); // the language would bring it along
  runInContext(script, context, {filename: 'solver.js'});
  return context.stile;
}

// Worker is a browser's Worker made of one of node's. Every address is the solver's.
export class Worker {
  constructor() {
    this.thread = new threads.Worker(`
      const {parentPort} = require('worker_threads');
      globalThis.WorkerGlobalScope = Object;
      globalThis.self = globalThis;
      globalThis.postMessage = m => parentPort.postMessage(m);
      parentPort.on('message', data => onmessage({data}));
      ${script}`, {eval: true});
    this.thread.on('message', data => this.onmessage({data}));
    this.thread.on('error', e => this.onerror(e));
  }
  postMessage(m) { this.thread.postMessage(m); }
  terminate() { return this.thread.terminate(); }
}

// newToken makes something that ends in a seed which nobody has seen before.
export function newToken() {
  return Buffer.from(crypto.getRandomValues(new Uint8Array(99))).toString('base64url');
}
