// Following a job's log. An EventSource cannot send a key, so the stream is read by fetch and cut
// into events here. When it breaks it is taken up after the last event that was seen: nothing is
// missed or told twice.

import { Refused, send } from "./api.js";

const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 5000;

const pause = (milliseconds, signal) =>
  new Promise((resolve) => {
    const timer = setTimeout(resolve, milliseconds);
    signal.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true });
  });

const parse = (block) => {
  const event = { id: null, type: "message", data: "" };
  for (const line of block.split("\n")) {
    const [, name, value] = line.match(/^(\w+):\s?(.*)$/) ?? [];
    if (name === "id") event.id = Number(value);
    else if (name === "event") event.type = value;
    else if (name === "data") event.data += value;
  }
  return event.data === "" ? null : { ...event, data: JSON.parse(event.data) };
};

async function* eventsOf(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    const blocks = text.split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const event = parse(block);
      if (event) yield event;
    }
  }
}

// Calls `tell` with each event after `after`, until the job has ended, it is gone, or the signal.
export const follow = async (jobId, after, tell, signal) => {
  let wait = FIRST_PAUSE_MS;
  const path = `/v1/jobs/${encodeURIComponent(jobId)}/events`;
  while (!signal.aborted) {
    try {
      const headers = { Accept: "text/event-stream", "Last-Event-ID": String(after) };
      const answer = await send("GET", path, { headers, signal });
      if (answer.status === 204) return;
      for await (const event of eventsOf(answer)) {
        if (signal.aborted) return;
        wait = FIRST_PAUSE_MS;
        if (event.id !== null) after = event.id;
        tell(event);
        if (event.type === "end") return;
      }
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Refused && error.status < 500) return;
    }
    await pause(wait, signal);
    wait = Math.min(2 * wait, LONGEST_PAUSE_MS);
  }
};
