// The artifacts of a job: images are shown, every file can be downloaded.

import { Icon } from "../parts/icons.js";
import { Picture, canBeShown } from "../parts/picture.js";
import { save } from "../parts/download.js";
import { Panel } from "../parts/small.js";
import { attempt } from "../messages.js";
import { html } from "../view.js";
import { size } from "../format.js";

const MOST_PICTURES = 6;

export const Files = ({ job }) => {
  if (!job.artifacts.length) return null;
  return html`
    <${Panel} title="Artifacts">
      <div class="pictures">
        ${job.artifacts.filter(canBeShown).slice(0, MOST_PICTURES).map((file) => html`<${Picture} key=${file.name} file=${file} />`)}
        <ul class="files">
          ${job.artifacts.map((file) => html`
            <li>
              <span class="mono">${file.name}</span>
              <span class="quiet">${file.content_type}, ${size(file.size)}</span>
              <button type="button" class="small" onClick=${() => attempt(() => save(file.url, file.name))}>
                <${Icon} name="download" />Save
              </button>
            </li>`)}
        </ul>
      </div>
    <//>
  `;
};
