// The current job: read once, updated by its event stream, and polled every few seconds in
// case it is resumed after it finished.

import { get } from "../api.js";
import { usePolled, useVisible } from "../polling.js";
import { tenant } from "../session.js";
import { useStore } from "../store.js";
import { follow } from "../stream.js";
import { useCallback, useEffect, useRef, useState } from "../view.js";

// Only the start and the end of a long log are shown.
const BEGINNING = 400;
const END = 600;
const MOST_KEPT = 3000;
const MOVED_PAUSE_MS = 150;

const ENDED = ["succeeded", "failed", "cancelled"];

// For another caller's job an operator sees the state and nothing else.
const noSteps = (error) => {
  if (error.status === 404) return { steps: [] };
  throw error;
};

export const useJob = (id) => {
  const named = useStore(tenant);
  const visible = useVisible();
  const path = `/v1/jobs/${encodeURIComponent(id)}`;
  const [events, setEvents] = useState([]);
  const [leftOut, setLeftOut] = useState(0);
  const [progress, setProgress] = useState(null);
  const [turn, setTurn] = useState(0);
  const last = useRef(0);
  const ended = useRef(false);
  const { value, error, refresh } = usePolled(
    async () => {
      const [job, found] = await Promise.all([get(`${path}?explain=1`), get(`${path}/steps`).catch(noSteps)]);
      return { job, steps: found.steps };
    },
    [path, named],
    4000,
  );
  const add = useCallback((found) => {
    const fresh = found.filter(({ seq }) => seq > last.current);
    if (!fresh.length) return;
    last.current = fresh.at(-1).seq;
    setEvents((before) => {
      const all = [...before, ...fresh];
      if (all.length <= MOST_KEPT) return all;
      setLeftOut((count) => count + all.length - MOST_KEPT);
      return [...all.slice(0, BEGINNING), ...all.slice(BEGINNING + all.length - MOST_KEPT)];
    });
  }, []);

  useEffect(() => {
    setEvents([]);
    setLeftOut(0);
    setProgress(null);
    last.current = 0;
  }, [path, named]);

  // A browser limits connections per server: a hidden tab closes its stream.
  useEffect(() => {
    if (!visible) return undefined;
    const stop = new AbortController();
    let timer = 0;
    // Changes that arrive together cause one read.
    const moved = () => {
      clearTimeout(timer);
      timer = setTimeout(refresh, MOVED_PAUSE_MS);
    };
    const hear = (event) => {
      if (event.type === "end" || event.type === "reset") return moved();
      add([event.data]);
      if (event.type === "progress") setProgress(event.data.data);
      else if (event.type !== "log" && event.type !== "output") moved();
    };
    const read = async () => {
      ended.current = false;
      if (!last.current) {
        const page = await get(`${path}/events?limit=${BEGINNING}`, { signal: stop.signal });
        add(page.events);
        if (page.last > BEGINNING + END) {
          setLeftOut(page.last - BEGINNING - END);
          last.current = page.last - END;
        }
      }
      await follow(id, last.current, hear, stop.signal);
    };
    read()
      .catch(() => {})
      .then(() => (ended.current = !stop.signal.aborted || ended.current));
    return () => {
      stop.abort();
      clearTimeout(timer);
    };
  }, [path, named, turn, visible]);

  // The job was resumed, or the stream failed to open: reconnect.
  const state = value?.job.state;
  useEffect(() => {
    if (state && !ENDED.includes(state) && ended.current) setTurn(turn + 1);
  }, [value]);

  const job = value && {
    ...value.job,
    progress: ENDED.includes(state) || progress?.done === undefined ? value.job.progress : progress,
  };
  return { job, steps: value?.steps ?? [], events, leftOut, error, refresh };
};
