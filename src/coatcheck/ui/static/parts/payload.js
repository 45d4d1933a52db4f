// A JSON value: formatted, highlighted, and collapsed if it is long.

import { html, useMemo, useState } from "../view.js";
import { size } from "../format.js";
import { Copy } from "./small.js";

const LINES_SHOWN = 24;
const LONGEST_TEXT = 400_000;
const TOKEN = /("(?:\\.|[^"\\])*")(\s*:)?|\b(true|false|null)\b|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)/g;

const coloured = (text) => {
  const parts = [];
  let last = 0;
  for (const found of text.matchAll(TOKEN)) {
    const [all, string, colon, word, number] = found;
    parts.push(text.slice(last, found.index));
    const kind = string ? (colon ? "json-name" : "json-text") : word ? "json-word" : "json-number";
    parts.push(html`<span class=${kind}>${string ?? word ?? number}</span>`, colon ?? "");
    last = found.index + all.length;
  }
  parts.push(text.slice(last));
  return parts;
};

export const Payload = ({ value, label }) => {
  const [open, setOpen] = useState(false);
  const text = useMemo(() => JSON.stringify(value, null, 2) ?? "null", [value]);
  const lines = text.split("\n");
  const isLong = lines.length > LINES_SHOWN || text.length > 6000;
  const shown = open || !isLong ? text.slice(0, LONGEST_TEXT) : lines.slice(0, LINES_SHOWN).join("\n").slice(0, 6000);
  return html`
    <div class="payload">
      <pre tabindex="0" aria-label=${label}>${coloured(shown)}${shown.length < text.length ? "\n…" : ""}</pre>
      <div class="payload-tools">
        ${isLong
          ? html`<button type="button" class="bare" aria-expanded=${open} onClick=${() => setOpen(!open)}>
              ${open ? "Collapse" : `Show all (${size(text.length)})`}
            </button>`
          : null}
        <${Copy} text=${text} label=${`Copy ${label}`} />
      </div>
    </div>
  `;
};
