// The door: a key is asked for, kept in this tab, and forgotten with it.

import { Mark } from "../parts/icons.js";
import { logIn } from "../session.js";
import { html, useEffect, useRef, useState } from "../view.js";

export const Door = ({ refused, tried, again }) => {
  const [text, setText] = useState("");
  const field = useRef(null);
  useEffect(() => field.current?.focus(), []);
  const away = refused.status === undefined || refused.status >= 500;
  const enter = (event) => {
    event.preventDefault();
    if (text.trim() === tried) again();
    else logIn(text.trim());
  };
  if (away) {
    return html`<div class="door"><p role="alert">The server does not answer; trying again …</p></div>`;
  }
  return html`
    <main class="door">
      <form onSubmit=${enter}>
        <${Mark} />
        <h1>Coatcheck</h1>
        <div class="field">
          <label for="key">API key</label>
          <input id="key" type="password" autocomplete="off" spellcheck="false" required ref=${field}
            placeholder="ck_…" value=${text} onInput=${(event) => setText(event.target.value)}
            aria-describedby="key-hint" />
          <p id="key-hint" class="hint">Made by <code>coatcheck keys create</code>. It stays in this tab.</p>
        </div>
        ${tried ? html`<p class="notice bad" role="alert">${refused.message}</p>` : null}
        <button class="main button-wide" type="submit">Come in</button>
      </form>
    </main>
  `;
};
