// Graphile Worker, doing one verb of benchmarks/peers/protocol.py: options as JSON in the first
// argument, one line of JSON out. graphile_peer.py starts it.
import { setTimeout as sleep } from "node:timers/promises";
import { Logger, makeWorkerUtils, run } from "graphile-worker";
import pg from "pg";

const options = JSON.parse(process.argv[2]);
const IN_A_LIST = 500;
const IN_ONE_FETCH = 500;
const LOOK_EVERY_MS = 10;
const PATIENCE_MS = 120_000;
const inAList = options.variant === "batched" ? IN_A_LIST : 1;

const pool = (max) => new pg.Pool({ ...options.database, max });

const quiet = new Logger(() => () => {});
const started = new Map();
let ran = 0;
let called = () => {};

const taskList = {
  job: async (data) => {
    ran += 1;
    return data;
  },
  stamp: async (data) => {
    started.set(data.n, performance.now());
    called();
  },
};

const preset = (concurrency) => ({
  worker: {
    concurrentJobs: concurrency,
    pollInterval: 100,
    localQueue: { size: IN_ONE_FETCH },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
    logger: quiet,
  },
});

const payload = (number) => ({ n: number });

async function withUtils(use) {
  const pgPool = pool(10);
  const utils = await makeWorkerUtils({ pgPool, logger: quiet });
  try {
    await utils.migrate();
    return await use(utils, pgPool);
  } finally {
    await utils.release();
    await pgPool.end();
  }
}

async function withWorkers(use) {
  const pgPool = pool(10);
  const runner = await run({
    pgPool,
    taskList,
    noHandleSignals: true,
    preset: preset(options.workers || 24),
  });
  try {
    return await use();
  } finally {
    await runner.stop();
    await pgPool.end();
  }
}

async function handIn(utils, callers, seconds, inAList) {
  let next = 0;
  const start = performance.now();
  const until = start + seconds * 1000;
  const call = async () => {
    let count = 0;
    while (performance.now() < until) {
      const first = next;
      next += inAList;
      if (inAList === 1) {
        await utils.addJob("job", payload(first));
      } else {
        const specs = [];
        for (let n = first; n < first + inAList; n++) {
          specs.push({ identifier: "job", payload: payload(n) });
        }
        await utils.addJobs(specs);
      }
      count += inAList;
    }
    return count;
  };
  const counts = await Promise.all(Array.from({ length: callers }, call));
  const jobs = counts.reduce((a, b) => a + b, 0);
  return { started: start, jobs, seconds: (performance.now() - start) / 1000 };
}

// A finished job is deleted: all have run, and none is left.
async function untilDone(pgPool, jobs) {
  const deadline = performance.now() + PATIENCE_MS;
  while (ran < jobs) {
    if (performance.now() > deadline) throw new Error(`${ran} of ${jobs} jobs had run`);
    await sleep(2);
  }
  for (;;) {
    const { rows } = await pgPool.query("SELECT 1 FROM graphile_worker._private_jobs LIMIT 1");
    if (rows.length === 0) return performance.now();
    if (performance.now() > deadline) throw new Error("finished jobs were not deleted");
    await sleep(LOOK_EVERY_MS);
  }
}

const rate = (jobs, seconds) => ({ jobs, seconds, per_second: jobs / seconds });
const cpuSeconds = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1e6;
};

const verbs = {
  describe: () =>
    withUtils(async (_utils, pgPool) => {
      const { rows } = await pgPool.query(options.settings_query);
      return Object.fromEntries(rows.map((row) => [row.name, row.setting]));
    }),
  enqueue: () =>
    withUtils(async (utils, pgPool) => {
      const measured = await handIn(utils, options.callers, options.seconds, inAList);
      const { rows } = await pgPool.query(
        "SELECT count(*)::int AS stored FROM graphile_worker._private_jobs",
      );
      if (rows[0].stored !== measured.jobs) throw new Error(`${rows[0].stored} stored`);
      return rate(measured.jobs, measured.seconds);
    }),
  drain: () =>
    withUtils(async (utils, pgPool) => {
      const { jobs } = await handIn(utils, 1, options.seconds, IN_A_LIST);
      const start = performance.now();
      const cpu = cpuSeconds();
      return await withWorkers(async () => {
        const end = await untilDone(pgPool, jobs);
        const answer = rate(jobs, (end - start) / 1000);
        answer.cpu_us_per_job = (1e6 * (cpuSeconds() - cpu)) / jobs;
        return answer;
      });
    }),
  "end-to-end": () =>
    withUtils((utils, pgPool) =>
      withWorkers(async () => {
        await sleep(500);
        const handed = await handIn(utils, options.callers, options.seconds, inAList);
        const end = await untilDone(pgPool, handed.jobs);
        return rate(handed.jobs, (end - handed.started) / 1000);
      }),
    ),
  pickup: () =>
    withUtils((utils) =>
      withWorkers(async () => {
        const milliseconds = [];
        await sleep(500);
        for (const [number, gap] of options.gaps.entries()) {
          await sleep(gap * 1000);
          const reached = new Promise((resolve) => {
            called = resolve;
          });
          const submitted = performance.now();
          await utils.addJob("stamp", payload(number));
          await Promise.race([
            reached,
            sleep(10_000, undefined, { ref: false }).then(() => {
              throw new Error("a job was not picked up within 10 s");
            }),
          ]);
          milliseconds.push(started.get(number) - submitted);
        }
        return { milliseconds };
      }),
    ),
};

console.log(JSON.stringify(await verbs[options.verb]()));
process.exit(0);
