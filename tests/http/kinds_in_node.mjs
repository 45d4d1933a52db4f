// What the tests of the worker in Node run: kinds that stop where a test wants to strike. A gate is
// a file in the working directory; what is done for good is written to the file `effects` there.

import { appendFileSync, existsSync } from "node:fs";
import { setTimeout as pause } from "node:timers/promises";
import { Fail, work } from "../../examples/worker.mjs";

const BULK = 100_000;

function done(what, result) {
  appendFileSync("effects", `${what}\n`);
  return result;
}

async function order(job, item) {
  const cents = await job.step("pay", () => done("paid", 1200), "once");
  const label = await job.step("print", () => done("printed", item.repeat(BULK)));
  const copy = await job.step("print", () => done("copied", item));
  await job.progress(1, 2, "paid");
  while (!existsSync("gate")) await pause(20, undefined, { signal: job.signal });
  const sent = await job.step("send", () => done("sent", { label: label.length, copy }));
  return { ...sent, cents, attempt: job.attempt, pid: process.pid };
}

async function refuse(job, why) {
  throw new Fail("refused", why);
}

async function stumble(job, why) {
  if (job.attempt === 1) throw new TypeError(why);
  return "at last";
}

async function misfit() {
  return { not: "a text" };
}

await work(process.argv[2], { order, refuse, stumble, misfit });
