// Formatting of numbers, times and sizes.

const counted = new Intl.NumberFormat();
const clock = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit", minute: "2-digit", second: "2-digit",
});
const day = new Intl.DateTimeFormat(undefined, { day: "numeric", month: "short" });
const exact = new Intl.DateTimeFormat(undefined, {
  dateStyle: "full", timeStyle: "long",
});

export const count = (number) => counted.format(number);

export const plural = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

export const span = (milliseconds) => {
  const ms = Math.max(0, milliseconds);
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 60) return `${s < 10 ? s.toFixed(1) : Math.round(s)} s`;
  const minutes = Math.floor(s / 60);
  if (minutes < 60) return `${minutes} min ${Math.round(s % 60)} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${minutes % 60} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
};

export const size = (bytes) => {
  if (bytes < 1000) return `${bytes} B`;
  const units = ["kB", "MB", "GB", "TB"];
  let value = bytes / 1000;
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return `${value < 10 ? value.toFixed(1) : Math.round(value)} ${units[unit]}`;
};

export const timeOfDay = (moment) => clock.format(new Date(moment));

export const shortTime = (moment, now = Date.now()) => {
  const at = new Date(moment);
  return Math.abs(now - at) < 20 * 3_600_000 ? clock.format(at) : `${day.format(at)}, ${clock.format(at)}`;
};

export const exactTime = (moment) => `${exact.format(new Date(moment))}\n${moment}`;

export const relative = (moment, now = Date.now()) => {
  const away = now - new Date(moment);
  if (Math.abs(away) < 5000) return "now";
  const text = rough(Math.abs(away));
  return away > 0 ? `${text} ago` : `in ${text}`;
};

const rough = (ms) => {
  const s = Math.round(ms / 1000);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.round(s / 60)} min`;
  if (s < 48 * 3600) return `${Math.round(s / 3600)} h`;
  return `${Math.round(s / 86400)} d`;
};
