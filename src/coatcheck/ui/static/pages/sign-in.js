// Sign-in: asks for a key, which is stored for this tab only.

import { Mark } from "../parts/icons.js";
import { logIn } from "../session.js";
import { html, useEffect, useRef, useState } from "../view.js";

export const SignIn = ({ refused, tried, again }) => {
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
    return html`<div class="sign-in"><p role="alert">The server does not respond; retrying …</p></div>`;
  }
  return html`
    <main class="sign-in">
      <form onSubmit=${enter}>
        <${Mark} />
        <h1>Coatcheck</h1>
        <div class="field">
          <label for="key">API key</label>
          <input id="key" type="password" autocomplete="off" spellcheck="false" required ref=${field}
            placeholder="ck_…" value=${text} onInput=${(event) => setText(event.target.value)}
            aria-describedby="key-hint" />
          <p id="key-hint" class="hint">Create one with <code>coatcheck keys create</code>. It is stored for this tab only.</p>
        </div>
        ${tried ? html`<p class="notice bad" role="alert">${refused.message}</p>` : null}
        <button class="main button-wide" type="submit">Sign in</button>
      </form>
    </main>
  `;
};
