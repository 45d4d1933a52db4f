// Asking again and again while the page is looked at.

import { useCallback, useEffect, useRef, useState } from "./view.js";

// Calls `ask` now and every so many milliseconds; an answer that is out of date is dropped. What was
// answered stays when a later question fails.
export const usePolled = (ask, inputs, every = 3000) => {
  const [state, setState] = useState({ value: null, error: null });
  const turn = useRef(0);
  const answered = useRef(false);
  const refresh = useCallback(async () => {
    const mine = ++turn.current;
    try {
      const value = await ask();
      if (mine !== turn.current) return;
      answered.current = true;
      setState({ value, error: null });
    } catch (error) {
      if (mine !== turn.current || error.name === "AbortError") return;
      // What was answered to another question is no answer to this one.
      setState((before) => ({ value: answered.current ? before.value : null, error }));
    }
  }, inputs);
  useEffect(() => {
    answered.current = false;
    refresh();
    const timer = setInterval(() => document.hidden || refresh(), every);
    const back = () => document.hidden || refresh();
    document.addEventListener("visibilitychange", back);
    return () => {
      turn.current += 1;
      clearInterval(timer);
      document.removeEventListener("visibilitychange", back);
    };
  }, [refresh, every]);
  return { ...state, refresh };
};

// Whether the page is looked at.
export const useVisible = () => {
  const [visible, setVisible] = useState(!document.hidden);
  useEffect(() => {
    const look = () => setVisible(!document.hidden);
    document.addEventListener("visibilitychange", look);
    return () => document.removeEventListener("visibilitychange", look);
  }, []);
  return visible;
};

// The time, again and again.
export const useNow = (every = 1000) => {
  const [now, setNow] = useState(Date.now());
  useEffect(() => {
    const timer = setInterval(() => document.hidden || setNow(Date.now()), every);
    return () => clearInterval(timer);
  }, [every]);
  return now;
};
