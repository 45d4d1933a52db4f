// A form generated from a JSON Schema. Types without a field of their own (lists of objects, unions, any
// value) are entered as JSON. The value is the JSON of all fields.

import { resolve } from "../schema.js";
import { html } from "../view.js";
import { JsonArea } from "./json-area.js";

const isPlain = ({ type, enum: choices }) => choices || ["string", "integer", "number", "boolean"].includes(type);

const wrongAt = (errors, pointer) => errors.filter((error) => error.pointer === pointer || error.pointer === `/input${pointer}`);

const PlainField = ({ id, schema, value, onChange, required }) => {
  if (schema.enum) {
    return html`<select id=${id} value=${value ?? ""} onChange=${(event) => onChange(schema.enum.find((each) => String(each) === event.target.value))}>
      ${required ? null : html`<option value=""></option>`}
      ${schema.enum.map((each) => html`<option value=${String(each)}>${String(each)}</option>`)}
    </select>`;
  }
  if (schema.type === "boolean") {
    return html`<input id=${id} type="checkbox" checked=${value === true} onChange=${(event) => onChange(event.target.checked)} />`;
  }
  if (schema.type === "string") {
    const write = (event) => onChange(event.target.value === "" && schema.isNullable ? null : event.target.value);
    if ((schema.maxLength ?? 0) > 500) return html`<textarea id=${id} value=${value ?? ""} onInput=${write}></textarea>`;
    return html`<input id=${id} type="text" value=${value ?? ""} onInput=${write} />`;
  }
  const low = schema.minimum ?? schema.exclusiveMinimum;
  const high = schema.maximum ?? schema.exclusiveMaximum;
  return html`<input id=${id} type="number" step=${schema.type === "integer" ? 1 : "any"} min=${low} max=${high} value=${value ?? ""}
    onInput=${(event) => onChange(event.target.value === "" ? (schema.isNullable ? null : undefined) : Number(event.target.value))} />`;
};

export const SchemaForm = ({ schema, root = schema, value, onChange, errors = [], pointer = "", name = "Input", required = true }) => {
  const found = resolve(schema, root);
  const id = `field${pointer.replaceAll("/", "-") || "-input"}`;
  if (found.type === "object" && found.properties) {
    const set = (part) => (next) => {
      const { [part]: _gone, ...rest } = value ?? {};
      onChange(next === undefined ? rest : { ...value, [part]: next });
    };
    const parts = Object.entries(found.properties).map(([part, of]) => html`
      <${SchemaForm} key=${part} schema=${of} root=${root} name=${part} value=${value?.[part]} onChange=${set(part)}
        errors=${errors} pointer=${`${pointer}/${part}`} required=${(found.required ?? []).includes(part)} />`);
    return pointer ? html`<fieldset><legend>${name}</legend>${parts}</fieldset>` : html`<div class="form">${parts}</div>`;
  }
  const wrong = wrongAt(errors, pointer).map(({ detail }) => html`<span class="wrong" role="alert">${detail}</span>`);
  if (!isPlain(found)) {
    return html`<div class="field"><${JsonArea} id=${id} label=${`${name}, as JSON`} value=${value} onChange=${onChange} />${wrong}</div>`;
  }
  return html`
    <div class="field">
      <label for=${id}>${name}</label>
      <${PlainField} id=${id} schema=${found} value=${value} onChange=${onChange} required=${required} />
      ${found.description ? html`<span class="hint">${found.description}</span>` : null}
      ${wrong}
    </div>
  `;
};
