// What `page.py` calls in the page, beside Mermaid. The page is opened for this and shows nothing.
//
// Mermaid writes labels as HTML inside of the SVG. HTML is not for pictures that anybody may look
// at, so each label is written as SVG text, at the very places where the browser has laid its
// letters out: line by line, with the font, the size and the colour that it has there. Formulas are
// HTML like any other label: letters in fonts of their own, lines that are borders, and roots and
// braces that are SVG already.
//
// What draws PNGs knows little of style sheets. For it, each element is given the style that the
// browser has found for it.
"use strict";

globalThis.coatcheck = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const pen = document.createElement("canvas").getContext("2d");
  const LOOKS = [
    "display", "visibility", "opacity", "fill", "fill-opacity", "fill-rule", "stroke",
    "stroke-opacity", "stroke-width", "stroke-dasharray", "stroke-linecap", "stroke-linejoin",
    "marker-start", "marker-mid", "marker-end", "stop-color", "stop-opacity", "filter",
    "paint-order", "font-family", "font-size", "font-weight", "font-style", "text-anchor",
    "dominant-baseline", "text-decoration-line",
  ];

  async function prepare({ fonts, style, settings }) {
    for (const { family, weight, slant, data } of fonts) {
      const bytes = Uint8Array.from(atob(data), (letter) => letter.charCodeAt(0));
      const face = new FontFace(family, bytes, { weight, style: slant });
      document.fonts.add(await face.load());
    }
    const sheet = document.createElement("style");
    sheet.textContent = style;
    document.head.append(sheet);
    mermaid.initialize(settings);
  }

  async function draw(source, withoutSheet) {
    seedChance();
    try {
      const { svg } = await mermaid.render("diagram", source);
      const holder = document.createElement("div");
      document.body.append(holder);
      holder.innerHTML = svg;
      const root = holder.querySelector("svg");
      const faces = new Map();
      for (const label of root.querySelectorAll("foreignObject")) {
        const stands = label.parentElement.localName === "switch" ? label.parentElement : label;
        stands.replaceWith(asShapes(label, faces));
      }
      if (withoutSheet) bringHome(root);
      return { svg: new XMLSerializer().serializeToString(root), faces: [...faces.values()] };
    } catch (error) {
      return { mistake: describe(error) };
    } finally {
      document.body.replaceChildren();
    }
  }

  // Some layouts begin at random. The same source is to give the same picture.
  function seedChance() {
    let state = 42;
    Math.random = () => {
      state = (state + 0x6d2b79f5) | 0;
      let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
      mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
      return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
    };
  }

  function bringHome(root) {
    const found = [root, ...root.querySelectorAll("*")].map((element) => {
      const look = getComputedStyle(element);
      const style = LOOKS.map((name) => [name, look.getPropertyValue(name)])
        .filter(([name, value]) => value !== "none" || name === "fill" || name === "display")
        .map(([name, value]) => `${name.replace("-line", "")}:${value}`);
      return [element, style.join(";"), turned(element, look)];
    });
    for (const [element, style, transform] of found) {
      element.setAttribute("style", style);
      if (!transform) continue;
      element.setAttribute("transform", transform);
      element.removeAttribute("transform-origin");
    }
    for (const sheet of root.querySelectorAll("style")) sheet.remove();
  }

  // A style sheet may turn an element, too, which is then said in its attribute.
  function turned(element, look) {
    if (element.hasAttribute("transform") || look.transform === "none") return null;
    const [x, y] = look.transformOrigin.split(" ").map(parseFloat);
    return `translate(${x} ${y}) ${look.transform} translate(${-x} ${-y})`;
  }

  // Each of Mermaid's parsers tells in its own way where a mistake is.
  function describe(error) {
    const found = error?.result;
    const lexer = found?.lexerErrors?.[0];
    const token = found?.parserErrors?.[0]?.token;
    // Not the place of what is wrong, but of what was read before it: in its line, its end.
    const place = error?.hash?.loc;
    const before = place?.first_line === place?.last_line ? place?.last_column : place.first_column;
    const known = (number) => (Number.isFinite(number) ? number : null);
    return {
      kind: String(error?.name ?? ""),
      reason: String(found ? (lexer ?? found.parserErrors[0]).message : error?.message ?? error),
      token: String(error?.hash?.text ?? ""),
      line: known(lexer?.line ?? token?.startLine ?? place?.first_line ?? error?.mark?.line),
      column: known(lexer?.column ?? token?.startColumn ?? error?.mark?.column),
      behind: known(before),
    };
  }

  function asShapes(label, faces) {
    const group = make("g", { class: label.getAttribute("class") ?? "" });
    if (label.hasAttribute("transform")) {
      group.setAttribute("transform", label.getAttribute("transform"));
    }
    const matrix = label.getScreenCTM();
    const text = make("text", {});
    const space = { inverse: matrix.inverse(), scale: Math.hypot(matrix.a, matrix.b) || 1 };
    const walk = document.createTreeWalker(label, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT, {
      acceptNode: (node) => isLeftOut(node) ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT,
    });
    for (let node = walk.nextNode(); node; node = walk.nextNode()) {
      if (node.nodeType === Node.TEXT_NODE) {
        text.append(...lines(node, space, faces));
      } else if (node.namespaceURI === SVG) {
        if (node.localName === "svg") group.append(drawnPart(node, space));
      } else {
        group.append(...box(node, space));
      }
    }
    if (text.hasChildNodes()) group.append(text);
    return group;
  }

  // Formulas are there twice: as they look, and for those who listen.
  function isLeftOut(node) {
    return node.nodeType === Node.ELEMENT_NODE && node.classList.contains("katex-mathml");
  }

  function lines(node, space, faces) {
    if (!/[^\s\u200b]/.test(node.data)) return [];
    const look = getComputedStyle(node.parentElement);
    pen.font = `${look.fontStyle} ${look.fontWeight} ${look.fontSize} ${look.fontFamily}`;
    const { fontBoundingBoxAscent: above, fontBoundingBoxDescent: below } = pen.measureText("x");
    const style = [
      `fill:${look.color}`, "stroke:none", `font-family:${look.fontFamily}`,
      `font-size:${look.fontSize}`, `font-weight:${look.fontWeight}`,
      `font-style:${look.fontStyle}`, "text-anchor:middle", "dominant-baseline:auto",
    ];
    if (look.textDecorationLine !== "none") {
      style.push(`text-decoration:${look.textDecorationLine}`);
    }
    const face = { family: look.fontFamily, weight: look.fontWeight, slant: look.fontStyle };
    faces.set(pen.font, face);
    return fragments(node).map(({ words, rectangle }) => {
      const middle = centre(rectangle, space);
      const part = make("tspan", {
        x: short(middle.x), y: short(middle.y + (above - below) / 2), style: style.join(";"),
      });
      part.textContent = words;
      return part;
    });
  }

  // The lines that a text is broken into, each with its place.
  function fragments(node) {
    const found = [];
    const range = document.createRange();
    range.selectNodeContents(node);
    if (range.getClientRects().length <= 1) {
      addFragment(found, node, 0, node.length);
      return found;
    }
    let first = 0;
    let top = null;
    for (let at = 0; at < node.length; at += node.data.codePointAt(at) > 0xffff ? 2 : 1) {
      range.setStart(node, at);
      range.setEnd(node, Math.min(at + 1, node.length));
      const [letter] = range.getClientRects();
      if (!letter?.width) continue;
      if (top !== null && Math.abs(letter.top - top) > letter.height / 2) {
        addFragment(found, node, first, at);
        first = at;
      }
      top = letter.top;
    }
    addFragment(found, node, first, node.length);
    return found;
  }

  function addFragment(found, node, first, last) {
    while (first < last && /[\s\u200b]/.test(node.data[first])) first += 1;
    while (last > first && /[\s\u200b]/.test(node.data[last - 1])) last -= 1;
    const range = document.createRange();
    range.setStart(node, first);
    range.setEnd(node, last);
    const rectangle = range.getBoundingClientRect();
    const words = node.data.slice(first, last).replace(/\s+/g, " ");
    if (words && rectangle.width) found.push({ words, rectangle });
  }

  // What is painted behind a part of a label, and the lines around it.
  function box(element, space) {
    const look = getComputedStyle(element);
    const shapes = [];
    const paint = (rectangle, colour) => {
      if (rectangle.width > 0 && rectangle.height > 0 && !/^rgba\(.*, 0\)$/.test(colour)) {
        shapes.push(rectangleOf(rectangle, space, `fill:${colour};stroke:none`));
      }
    };
    for (const { x, y, width, height } of element.getClientRects()) {
      paint({ x, y, width, height }, look.backgroundColor);
      const top = edge(look, "Top", space);
      const bottom = edge(look, "Bottom", space);
      const left = edge(look, "Left", space);
      const right = edge(look, "Right", space);
      paint({ x, y, width, height: top }, look.borderTopColor);
      paint({ x, y: y + height - bottom, width, height: bottom }, look.borderBottomColor);
      paint({ x, y, width: left, height }, look.borderLeftColor);
      paint({ x: x + width - right, y, width: right, height }, look.borderRightColor);
    }
    return shapes;
  }

  function edge(look, side, space) {
    return look[`border${side}Style`] === "none"
      ? 0 : parseFloat(look[`border${side}Width`]) * space.scale;
  }

  function rectangleOf(rectangle, space, style) {
    const middle = centre(rectangle, space);
    const width = rectangle.width / space.scale;
    const height = rectangle.height / space.scale;
    return make("rect", {
      x: short(middle.x - width / 2), y: short(middle.y - height / 2),
      width: short(width), height: short(height), style,
    });
  }

  // Roots and braces of formulas are far wider than they are shown; what is beyond is cut off.
  function drawnPart(element, space) {
    const all = element.getBoundingClientRect();
    const shown = element.closest(".hide-tail, .halfarrow-left, .halfarrow-right, .brace-left, "
      + ".brace-center, .brace-right")?.getBoundingClientRect() ?? all;
    const left = Math.max(all.left, shown.left);
    const width = Math.min(all.right, shown.right) - left;
    const middle = centre({ x: left, y: all.y, width, height: all.height }, space);
    const copy = element.cloneNode(true);
    const size = { width: width / space.scale, height: all.height / space.scale };
    copy.setAttribute("x", short(middle.x - size.width / 2));
    copy.setAttribute("y", short(middle.y - size.height / 2));
    copy.setAttribute("width", short(size.width));
    copy.setAttribute("height", short(size.height));
    const colour = getComputedStyle(element).color;
    for (const path of copy.querySelectorAll("path")) {
      path.setAttribute("style", `fill:${colour};stroke:none`);
    }
    return copy;
  }

  // By its middle a rectangle is found in the SVG, also where that is turned.
  function centre({ x, y, width, height }, space) {
    return new DOMPoint(x + width / 2, y + height / 2).matrixTransform(space.inverse);
  }

  function short(number) {
    return String(Math.round(number * 100) / 100);
  }

  function make(name, attributes) {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  }

  return { prepare, draw };
})();
