// A worker in Node without dependencies: it claims jobs from a Coatcheck server, renews their leases
// with heartbeats, records steps and settles the jobs.
//
//   import { Fail, work } from "./worker.mjs";
//   await work("http://127.0.0.1:8080", { async shout(job, text) { return text.toUpperCase(); } });
//
// A handler gets the job and its input, and returns the result. Throw Fail to fail the job without a
// retry; any other error ends the attempt, and the job is retried. SIGTERM and SIGINT release the
// job. If the lease is lost or the job is cancelled, `job.signal` is aborted and the job's next call
// throws; pass that signal to other calls that wait.

import { setTimeout as pause } from "node:timers/promises";

const WAIT_S = 30;
const PAUSE_MS = 500;
const HEARTBEATS_PER_LEASE = 3; // two of them may be lost

/** A permanent failure: the job is not retried. */
export class Fail extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

/** The lease is lost: the server ignores our writes for this job. */
class LeaseLost extends Error {}

/** The job's cancellation was requested. */
class Cancelled extends Error {}

/** The server rejected the request. */
class Rejected extends Error {}

/** The server is unreachable or overloaded. */
class Unreachable extends Error {}

class Server {
  constructor(address, apiKey) {
    this.address = address;
    this.headers = { "Content-Type": "application/json" };
    if (apiKey) this.headers.Authorization = `Bearer ${apiKey}`;
  }

  async call(method, path, body, signal) {
    const request = { method, headers: this.headers, body: JSON.stringify(body), signal };
    let response;
    let text;
    try {
      response = await fetch(this.address + path, request);
      text = await response.text();
    } catch (error) {
      throw new Unreachable(`${method} ${path}: ${error.message}`);
    }
    if (response.ok) return JSON.parse(text);
    const why = `${method} ${path}: ${response.status} ${text}`;
    if (response.status >= 500 || response.status === 429) throw new Unreachable(why);
    if (text.includes("urn:coatcheck:stale-lease")) throw new LeaseLost(why);
    throw new Rejected(why);
  }

  /** Call until the server responds; every write for a job can be repeated. */
  async callWithRetries(method, path, body, signal) {
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

/** A job, as its handler sees it. */
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

  /** Aborted when the handler should stop. */
  get signal() {
    return this.#stopping.signal;
  }

  /** Run a durable step; if an earlier attempt recorded it, return the saved result. */
  async step(name, body, key = null) {
    const seq = this.#seq++; // in the order in which the handler reaches them
    const occurrence = key === null ? (this.#counts.get(name) ?? 0) : 0;
    if (key === null) this.#counts.set(name, occurrence + 1);
    this.signal.throwIfAborted();
    const before = this.#done.get(identity({ name, key, occurrence }));
    if (before?.result_omitted) return this.#read(`/steps/${before.seq}/result`);
    if (before) return before.result;
    const started_at = new Date().toISOString();
    const result = (await body()) ?? null;
    await this.report("steps", { steps: [{ seq, name, key, occurrence, started_at, result }] });
    return result;
  }

  /** Report progress. */
  async progress(done, total, message) {
    await this.report("progress", { done, total, message });
  }

  async report(link, body) {
    return this.#server.callWithRetries("POST", this.#claim.links[link], body, this.signal);
  }

  async readSteps() {
    for (const step of (await this.#read("/steps")).steps) {
      if (step.state === "succeeded") this.#done.set(identity(step), step);
    }
  }

  async #read(path) {
    // The job may belong to another tenant; the query of the claim's links names it.
    const { search } = new URL(this.#claim.links.steps, this.#server.address);
    return this.#server.callWithRetries("GET", `/v1/jobs/${this.id}${path}${search}`, undefined, this.signal);
  }

  /** Send heartbeats until the job is settled. */
  async sendHeartbeats(settled) {
    for (;;) {
      try {
        await pause(this.#leaseMs / HEARTBEATS_PER_LEASE, undefined, { signal: settled });
        const response = await this.#server.call("POST", this.#claim.links.heartbeat, undefined, settled);
        if (response.cancel_requested) this.stop(new Cancelled("the job was cancelled"));
      } catch (error) {
        if (settled.aborted) return;
        if (!(error instanceof Unreachable)) return this.stop(error);
      }
    }
  }

  stop(reason) {
    this.#stopping.abort(reason);
  }

  /** Settle the job, even if it was stopped; give up when the lease has expired. */
  async settle(link, body) {
    const expired = AbortSignal.timeout(this.#leaseMs);
    await this.#server.callWithRetries("POST", this.#claim.links[link], body, expired);
  }
}

function identity({ name, key, occurrence }) {
  return JSON.stringify([name, key, occurrence]);
}

async function run(server, claim, leaseS, handler, stopping) {
  const job = new Job(server, claim, leaseS);
  const settled = new AbortController();
  const heartbeats = job.sendHeartbeats(settled.signal);
  const stop = () => job.stop(stopping.reason);
  stopping.addEventListener("abort", stop);
  try {
    await runHandler(job, claim.input, handler, stopping);
  } catch (error) {
    // The lease is lost or expired: another worker has the job, or will claim it.
    if (!(error instanceof LeaseLost) && error.name !== "TimeoutError") throw error;
  } finally {
    stopping.removeEventListener("abort", stop);
    settled.abort();
    await heartbeats;
  }
}

async function runHandler(job, input, handler, stopping) {
  try {
    job.signal.throwIfAborted();
    await job.readSteps();
    const result = (await handler(job, input)) ?? null;
    await job.settle("complete", { result });
  } catch (error) {
    const reason = job.signal.aborted ? job.signal.reason : error;
    if (reason instanceof LeaseLost) throw reason;
    if (stopping.aborted) return job.settle("release");
    const retryable = !(reason instanceof Fail || reason instanceof Rejected);
    const code = reason?.code ?? reason?.constructor?.name ?? "thrown";
    const message = String(reason?.message ?? reason).slice(0, 2000);
    await job.settle("fail", { code: String(code), message, retryable });
  }
}

/** Run jobs of these kinds, one at a time, until a stop signal. */
export async function work(address, handlers, { apiKey } = {}) {
  const server = new Server(address, apiKey);
  const stopping = new AbortController();
  for (const name of ["SIGTERM", "SIGINT"]) process.once(name, () => stopping.abort());
  const request = { kinds: Object.keys(handlers), max: 1, wait: WAIT_S };
  while (!stopping.signal.aborted) {
    try {
      const found = await server.call("POST", "/v1/claims", request, stopping.signal);
      for (const claim of found.claims) {
        await run(server, claim, found.lease_s, handlers[claim.kind], stopping.signal);
      }
    } catch (error) {
      if (!(error instanceof Unreachable)) throw error;
      if (!stopping.signal.aborted) await pause(PAUSE_MS);
    }
  }
}
