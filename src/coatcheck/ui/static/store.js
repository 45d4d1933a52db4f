// A value that parts of the page share, and that says when it changes.

import { useEffect, useState } from "./view.js";

export const makeStore = (value) => {
  const readers = new Set();
  return {
    get: () => value,
    set(next) {
      if (next === value) return;
      value = next;
      for (const read of [...readers]) read(next);
    },
    subscribe(read) {
      readers.add(read);
      return () => readers.delete(read);
    },
  };
};

export const useStore = (store) => {
  const [value, setValue] = useState(store.get());
  useEffect(() => {
    setValue(store.get());
    return store.subscribe((next) => setValue(next));
  }, [store]);
  return value;
};
