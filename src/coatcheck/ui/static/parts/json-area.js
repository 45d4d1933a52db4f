// A text area for JSON.

import { html, useState } from "../view.js";

export const JsonArea = ({ label, id = "json", value, onChange }) => {
  const [text, setText] = useState(() => JSON.stringify(value, null, 2) ?? "null");
  const [wrong, setWrong] = useState("");
  const write = (event) => {
    setText(event.target.value);
    try {
      onChange(JSON.parse(event.target.value || "null"));
      setWrong("");
    } catch (error) {
      setWrong(error.message);
    }
  };
  return html`
    <div class="field">
      <label for=${id}>${label}</label>
      <textarea id=${id} rows="12" spellcheck="false" value=${text} onInput=${write}></textarea>
      ${wrong ? html`<span class="wrong" role="alert">Not JSON: ${wrong}</span>` : null}
    </div>
  `;
};
