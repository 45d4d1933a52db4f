// A table that says to screen readers what it is about, and becomes a list on a phone.

import { html } from "../view.js";

// Leads through a listing, newest first. `cursors` are those of the pages before this one, the last
// is where this one begins; `next` is that of the page after it.
export const Pager = ({ cursors, setCursors, next }) => cursors.length || next
  ? html`<div class="pager">
      <span class="quiet">Page ${cursors.length + 1}, newest first</span>
      <button type="button" disabled=${!cursors.length} onClick=${() => setCursors(cursors.slice(0, -1))}>Newer</button>
      <button type="button" disabled=${!next} onClick=${() => setCursors([...cursors, next])}>Older</button>
    </div>`
  : null;

// `columns` are [{name, cell, kind?, unseen?}]; `name` stands beside the value on a narrow screen. A
// column without one says to screen readers what it is: `unseen`, or that it is for buttons.
export const Table = ({ caption, columns, rows, keyOf }) => html`
  <div class="table-frame">
    <table>
      <caption class="unseen">${caption}</caption>
      <thead>
        <tr>
          ${columns.map(({ name, kind, unseen = "What can be done" }) => html`
            <th scope="col" class=${kind}>${name || html`<span class="unseen">${unseen}</span>`}</th>`)}
        </tr>
      </thead>
      <tbody>
        ${rows.map(
          (row) => html`
            <tr key=${keyOf(row)}>
              ${columns.map(
                ({ name, cell, kind }) => html`<td class=${kind} data-name=${name}>${cell(row)}</td>`,
              )}
            </tr>
          `,
        )}
      </tbody>
    </table>
  </div>
`;
