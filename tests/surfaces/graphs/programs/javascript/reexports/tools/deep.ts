export function dig() {}
