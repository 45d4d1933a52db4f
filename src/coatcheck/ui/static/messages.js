// Notifications and confirmation dialogs.

import { makeStore } from "./store.js";

export const said = makeStore(null);
export const asked = makeStore(null);

let timer = 0;

export const say = (text, tone = "good") => {
  clearTimeout(timer);
  said.set({ text, tone });
  timer = setTimeout(() => said.set(null), tone === "bad" ? 12000 : 5000);
};

// Runs an action and shows its outcome; resolves to whether it succeeded.
export const attempt = async (deed, done) => {
  try {
    const value = await deed();
    const text = typeof done === "function" ? done(value) : done;
    if (text) say(text);
    return true;
  } catch (error) {
    say(error.name === "TypeError" ? "The server does not respond." : error.message, "bad");
    return false;
  }
};

// Shows a confirmation dialog; resolves to the answer.
export const confirm = (question) =>
  new Promise((resolve) => asked.set({ ...question, answer: (yes) => (asked.set(null), resolve(yes)) }));
