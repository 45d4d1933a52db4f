// A worker in Node that needs no package: it claims jobs of a Coatcheck server, keeps them by a
// heartbeat, writes down what they have done once and for all, and says how they ended.
//
//   import { Refusal, work } from "./worker.mjs";
//   await work("http://127.0.0.1:8080", { async shout(job, text) { return text.toUpperCase(); } });
//
// A handler gets its job and the job's input; what it returns is the result. A Refusal ends the job,
// any other error ends the attempt, and another one is made. SIGTERM and SIGINT give the job back.
// Where the lease is lost, or somebody wants the job cancelled, `job.signal` is aborted and the
// job's next call throws; whoever waits for something else passes that signal on.

import { setTimeout as pause } from "node:timers/promises";

const WAIT_S = 30;
const PAUSE_MS = 500;
const BEATS_PER_LEASE = 3; // two of them may get lost

/** Why a job cannot be done, however often it is tried. */
export class Refusal extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/** The job is not ours any more: nothing that we say about it counts. */
class LeaseLost extends Error {}

/** Somebody wants the job cancelled. */
class Cancelled extends Error {}

/** The server answered, and the answer is no. */
class Refused extends Error {}

/** The server cannot be reached, or has no answer now. */
class Unreachable extends Error {}

class Server {
  constructor(address, apiKey) {
    this.address = address;
    this.headers = { "Content-Type": "application/json" };
    if (apiKey) this.headers.Authorization = `Bearer ${apiKey}`;
  }

  async call(method, path, body, signal) {
    const asked = { method, headers: this.headers, body: JSON.stringify(body), signal };
    let answer;
    let text;
    try {
      answer = await fetch(this.address + path, asked);
      text = await answer.text();
    } catch (error) {
      throw new Unreachable(`${method} ${path}: ${error.message}`);
    }
    if (answer.ok) return JSON.parse(text);
    const why = `${method} ${path}: ${answer.status} ${text}`;
    if (answer.status >= 500 || answer.status === 429) throw new Unreachable(why);
    if (text.includes("urn:coatcheck:stale-lease")) throw new LeaseLost(why);
    throw new Refused(why);
  }

  /** Call until there is an answer; everything that is said of a job may be said twice. */
  async insist(method, path, body, signal) {
    for (;;) {
      signal.throwIfAborted();
      try {
        return await this.call(method, path, body);
      } catch (error) {
        if (!(error instanceof Unreachable)) throw error;
        await pause(PAUSE_MS);
      }
    }
  }
}

/** A job in the hands of its handler. */
export class Job {
  #server;
  #claim;
  #leaseMs;
  #stopping = new AbortController();
  #done = new Map();
  #counts = new Map();
  #seq = 0;

  constructor(server, claim, leaseS) {
    this.#server = server;
    this.#claim = claim;
    this.#leaseMs = leaseS * 1000;
  }

  get id() {
    return this.#claim.job_id;
  }

  get attempt() {
    return this.#claim.attempt;
  }

  /** Aborted when there is no use in going on. */
  get signal() {
    return this.#stopping.signal;
  }

  /** Do something once and for all: what an earlier attempt has written down is not done again. */
  async step(name, body, key = null) {
    const seq = this.#seq++; // in the order in which the code comes to them
    const occurrence = key === null ? (this.#counts.get(name) ?? 0) : 0;
    if (key === null) this.#counts.set(name, occurrence + 1);
    this.signal.throwIfAborted();
    const before = this.#done.get(identity({ name, key, occurrence }));
    if (before?.result_omitted) return this.#read(`/steps/${before.seq}/result`);
    if (before) return before.result;
    const started_at = new Date().toISOString();
    const result = (await body()) ?? null;
    await this.say("steps", { steps: [{ seq, name, key, occurrence, started_at, result }] });
    return result;
  }

  /** Say how far the job has come. */
  async progress(done, total, message) {
    await this.say("progress", { done, total, message });
  }

  async say(what, body) {
    return this.#server.insist("POST", this.#claim.links[what], body, this.signal);
  }

  async readSteps() {
    for (const step of (await this.#read("/steps")).steps) {
      if (step.state === "succeeded") this.#done.set(identity(step), step);
    }
  }

  async #read(path) {
    // A job may be another tenant's; the links of its claim say so.
    const { search } = new URL(this.#claim.links.steps, this.#server.address);
    return this.#server.insist("GET", `/v1/jobs/${this.id}${path}${search}`, undefined, this.signal);
  }

  /** Keep the lease until told to stop. */
  async keep(ended) {
    for (;;) {
      try {
        await pause(this.#leaseMs / BEATS_PER_LEASE, undefined, { signal: ended });
        const beat = await this.#server.call("POST", this.#claim.links.heartbeat, undefined, ended);
        if (beat.cancel_requested) this.stop(new Cancelled("somebody wants the job cancelled"));
      } catch (error) {
        if (ended.aborted) return;
        if (!(error instanceof Unreachable)) return this.stop(error);
      }
    }
  }

  stop(reason) {
    this.#stopping.abort(reason);
  }

  /** Say how the job ended, whether or not it was to stop; in a lease from now it is not ours. */
  async end(what, body) {
    const over = AbortSignal.timeout(this.#leaseMs);
    await this.#server.insist("POST", this.#claim.links[what], body, over);
  }
}

function identity({ name, key, occurrence }) {
  return JSON.stringify([name, key, occurrence]);
}

async function run(server, claim, leaseS, handler, stopping) {
  const job = new Job(server, claim, leaseS);
  const ended = new AbortController();
  const keeping = job.keep(ended.signal);
  const stop = () => job.stop(stopping.reason);
  stopping.addEventListener("abort", stop);
  try {
    await tryToRun(job, claim.input, handler, stopping);
  } catch (error) {
    // Lost, or nobody answered for a whole lease: somebody else has the job, or will have it.
    if (!(error instanceof LeaseLost) && error.name !== "TimeoutError") throw error;
  } finally {
    stopping.removeEventListener("abort", stop);
    ended.abort();
    await keeping;
  }
}

async function tryToRun(job, input, handler, stopping) {
  try {
    job.signal.throwIfAborted();
    await job.readSteps();
    const result = (await handler(job, input)) ?? null;
    await job.end("complete", { result });
  } catch (error) {
    const reason = job.signal.aborted ? job.signal.reason : error;
    if (reason instanceof LeaseLost) throw reason;
    if (stopping.aborted) return job.end("release");
    const retryable = !(reason instanceof Refusal || reason instanceof Refused);
    const code = reason?.code ?? reason?.constructor?.name ?? "thrown";
    const message = String(reason?.message ?? reason).slice(0, 2000);
    await job.end("fail", { code: String(code), message, retryable });
  }
}

/** Run the jobs of some kinds, one at a time, until the process is told to end. */
export async function work(address, handlers, { apiKey } = {}) {
  const server = new Server(address, apiKey);
  const stopping = new AbortController();
  for (const name of ["SIGTERM", "SIGINT"]) process.once(name, () => stopping.abort());
  const asked = { kinds: Object.keys(handlers), max: 1, wait: WAIT_S };
  while (!stopping.signal.aborted) {
    try {
      const found = await server.call("POST", "/v1/claims", asked, stopping.signal);
      for (const claim of found.claims) {
        await run(server, claim, found.lease_s, handlers[claim.kind], stopping.signal);
      }
    } catch (error) {
      if (!(error instanceof Unreachable)) throw error;
      if (!stopping.signal.aborted) await pause(PAUSE_MS);
    }
  }
}
