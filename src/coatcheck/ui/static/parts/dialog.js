// Dialogs and notifications. A dialog traps the focus and restores it.

import { asked, said } from "../messages.js";
import { useStore } from "../store.js";
import { classes, html, useEffect, useRef } from "../view.js";

export const Dialog = ({ title, onClose, children }) => {
  const dialog = useRef(null);
  useEffect(() => {
    const before = document.activeElement;
    dialog.current.showModal();
    return () => before?.focus?.();
  }, []);
  return html`
    <dialog ref=${dialog} aria-label=${title} onCancel=${(event) => (event.preventDefault(), onClose())}
      onClick=${(event) => event.target === dialog.current && onClose()}>
      <div class="dialog">
        <h2>${title}</h2>
        ${children}
      </div>
    </dialog>
  `;
};

export const Question = () => {
  const question = useStore(asked);
  if (!question) return null;
  const { title, text, yes = "Yes", danger, answer } = question;
  return html`
    <${Dialog} title=${title} onClose=${() => answer(false)}>
      <p>${text}</p>
      <div class="dialog-buttons">
        <button type="button" onClick=${() => answer(false)}>Dismiss</button>
        <button type="button" class=${danger ? "danger" : "main"} onClick=${() => answer(true)}>${yes}</button>
      </div>
    <//>
  `;
};

export const Said = () => {
  const message = useStore(said);
  return html`
    <div class="said" role="status" aria-live="polite">
      ${message ? html`<p class=${classes("toast", message.tone)}>${message.text}</p>` : null}
    </div>
  `;
};
