// A table that says to screen readers what it is about, and becomes a list on a phone.

import { html } from "../view.js";

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
