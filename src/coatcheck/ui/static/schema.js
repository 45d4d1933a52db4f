// What a JSON Schema says: what a reference names, what a form begins with, what would fit.

const DEEPEST = 8;

// Replaces a reference by what it names, and takes null out of what may be null.
export const resolve = (schema, root) => {
  let found = schema ?? {};
  for (let depth = 0; depth < DEEPEST; depth += 1) {
    if (typeof found.$ref === "string") {
      const target = found.$ref.split("/").slice(1).reduce((at, part) => at?.[part], root);
      found = { ...target, ...found, $ref: undefined };
    } else if (Array.isArray(found.anyOf)) {
      const others = found.anyOf.filter(({ type }) => type !== "null");
      if (others.length !== 1) return { ...found, isNullable: others.length < found.anyOf.length };
      found = { ...others[0], ...found, anyOf: undefined, isNullable: others.length < found.anyOf.length };
    } else break;
  }
  return found;
};

// What the fields of a form begin with: nothing, where nothing is said.
export const initial = (schema, root) => {
  const found = resolve(schema, root);
  if (found.default !== undefined) return found.default;
  if (found.const !== undefined) return found.const;
  if (found.type === "object" && found.properties) {
    const isGiven = ([name, part]) => (found.required ?? []).includes(name) || resolve(part, root).default !== undefined;
    const named = Object.entries(found.properties).filter(isGiven);
    return Object.fromEntries(named.map(([name, part]) => [name, initial(part, root)]));
  }
  if (found.isNullable) return null;
  if (found.enum) return found.enum[0];
  return { string: "", integer: 0, number: 0, boolean: false, array: [], object: {} }[found.type] ?? null;
};

const TEXTS = {
  date: "2030-01-31", time: "09:00:00Z", "date-time": "2030-01-31T09:00:00Z", duration: "PT1H",
  email: "somebody@example.com", uri: "https://example.com/", uuid: "00000000-0000-4000-8000-000000000000",
};

const textOf = ({ format, pattern, minLength = 0, maxLength = Infinity }) => {
  const text = format ? TEXTS[format] : "coat".padEnd(minLength, "s").slice(0, maxLength);
  return text !== undefined && (!pattern || new RegExp(pattern, "u").test(text)) ? text : undefined;
};

const numberOf = ({ type, minimum, exclusiveMinimum, maximum, exclusiveMaximum, multipleOf: step = 1 }) => {
  const low = Math.max(minimum ?? -Infinity, exclusiveMinimum === undefined ? -Infinity : exclusiveMinimum + step);
  const high = Math.min(maximum ?? Infinity, exclusiveMaximum === undefined ? Infinity : exclusiveMaximum - step);
  const number = step * Math.ceil(Math.min(Math.max(step, low), high) / step);
  const fits = number >= low && number <= high;
  return fits && (type === "number" || Number.isInteger(number)) ? number : undefined;
};

const listOf = ({ items, prefixItems, minItems = 0, uniqueItems }, root, depth) => {
  const parts = prefixItems ?? Array(minItems).fill(items);
  const values = parts.map((part) => example(part, root, depth));
  return values.includes(undefined) || (uniqueItems && values.length > 1) ? undefined : values;
};

const objectOf = ({ properties = {}, required = [], minProperties = 0 }, root, depth) => {
  const values = required.map((name) => example(properties[name], root, depth));
  if (values.includes(undefined) || values.length < minProperties) return undefined;
  return Object.fromEntries(required.map((name, index) => [name, values[index]]));
};

// Something that fits a schema, with as little in it as can be; undefined where that is not told by
// what is understood here, so that nothing wrong is given as an example.
export const example = (schema, root = schema, depth = 0) => {
  const found = resolve(schema, root);
  const said = found.examples?.[0] ?? found.default ?? found.const ?? found.enum?.[0];
  if (said !== undefined) return said;
  if (found.isNullable) return null;
  if (found.allOf || found.not || found.if || depth > DEEPEST) return undefined;
  const choices = found.anyOf ?? found.oneOf;
  if (choices) return choices.map((each) => example(each, root, depth + 1)).find((each) => each !== undefined);
  switch (found.type) {
    case "string": return textOf(found);
    case "integer": case "number": return numberOf(found);
    case "array": return listOf(found, root, depth + 1);
    case "object": return objectOf(found, root, depth + 1);
    case "boolean": return true;
    case "null": case undefined: return null;
    default: return undefined;
  }
};
