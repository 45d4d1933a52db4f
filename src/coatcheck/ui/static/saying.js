// What the page tells its reader, and what it asks before something is done for good.

import { makeStore } from "./store.js";

export const said = makeStore(null);
export const asked = makeStore(null);

let timer = 0;

export const say = (text, tone = "good") => {
  clearTimeout(timer);
  said.set({ text, tone });
  timer = setTimeout(() => said.set(null), tone === "bad" ? 12000 : 5000);
};

// Does something and says how that went; answers whether it went well.
export const attempt = async (deed, done) => {
  try {
    const value = await deed();
    const text = typeof done === "function" ? done(value) : done;
    if (text) say(text);
    return true;
  } catch (error) {
    say(error.name === "TypeError" ? "The server does not answer." : error.message, "bad");
    return false;
  }
};

// Asks for a yes; the answer is a promise.
export const confirm = (question) =>
  new Promise((resolve) => asked.set({ ...question, answer: (yes) => (asked.set(null), resolve(yes)) }));
