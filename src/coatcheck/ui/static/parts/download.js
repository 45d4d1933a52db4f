// Downloads of files that need the key: the file is fetched into memory and saved from there.

import { getBlob } from "../api.js";

export const save = async (path, name) => {
  const address = URL.createObjectURL(await getBlob(path));
  const link = Object.assign(document.createElement("a"), { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 60_000);
};
