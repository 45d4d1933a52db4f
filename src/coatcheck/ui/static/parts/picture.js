// An image that a job created. It is fetched with the key and shown from memory: in an
// <img> an SVG runs no script and loads nothing.

import { getBlob } from "../api.js";
import { html, useEffect, useState } from "../view.js";

const SHOWN = ["image/svg+xml", "image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"];
const LARGEST = 20_000_000;

export const canBeShown = ({ content_type: type, size }) =>
  SHOWN.includes(type.split(";")[0].trim()) && size <= LARGEST;

export const Picture = ({ file }) => {
  const [address, setAddress] = useState(null);
  useEffect(() => {
    let made = null;
    let gone = false;
    getBlob(file.url, file.content_type.split(";")[0].trim()).then(
      (blob) => {
        if (gone) return;
        made = URL.createObjectURL(blob);
        setAddress(made);
      },
      () => {},
    );
    return () => {
      gone = true;
      if (made) URL.revokeObjectURL(made);
    };
  }, [file.url, file.sha256]);
  return html`<div class="picture">${address ? html`<img src=${address} alt=${file.name} />` : null}</div>`;
};
