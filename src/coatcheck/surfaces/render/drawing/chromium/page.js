// Functions that `page.py` calls in the page, next to Mermaid. The page is never shown.
//
// Mermaid writes labels as HTML inside the SVG, which the sanitizer would drop. So each label is
// converted to SVG text at the positions where the browser laid out its letters: line by line, with
// the computed font, size and color. Formulas are HTML like any other label: letters in their own
// fonts, lines that are borders, and roots and braces that are already SVG.
//
// resvg, which draws PNGs, supports few style sheet features. For it, each element gets its
// computed style as an attribute.
"use strict";

globalThis.coatcheck = (() => {
  const SVG = "http://www.w3.org/2000/svg";
  const canvas = document.createElement("canvas").getContext("2d");
  const STYLE_PROPERTIES = [
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

  async function draw(source, withInlineStyles) {
    seedRandom();
    try {
      const { svg } = await mermaid.render("diagram", source);
      const holder = document.createElement("div");
      document.body.append(holder);
      holder.innerHTML = svg;
      const root = holder.querySelector("svg");
      const faces = new Map();
      for (const label of root.querySelectorAll("foreignObject")) {
        const outer = label.parentElement.localName === "switch" ? label.parentElement : label;
        outer.replaceWith(labelToSvg(label, faces));
      }
      if (withInlineStyles) inlineStyles(root);
      return { svg: new XMLSerializer().serializeToString(root), faces: [...faces.values()] };
    } catch (error) {
      return { error: describeError(error) };
    } finally {
      document.body.replaceChildren();
    }
  }

  // Some layouts start from random positions. The same source must yield the same picture.
  function seedRandom() {
    let state = 42;
    Math.random = () => {
      state = (state + 0x6d2b79f5) | 0;
      let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
      mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
      return ((mixed ^ (mixed >>> 14)) >>> 0) / 4294967296;
    };
  }

  function inlineStyles(root) {
    const found = [root, ...root.querySelectorAll("*")].map((element) => {
      const computed = getComputedStyle(element);
      const style = STYLE_PROPERTIES.map((name) => [name, computed.getPropertyValue(name)])
        .filter(([name, value]) => value !== "none" || name === "fill" || name === "display")
        .map(([name, value]) => `${name.replace("-line", "")}:${value}`);
      return [element, style.join(";"), styleTransform(element, computed)];
    });
    for (const [element, style, transform] of found) {
      element.setAttribute("style", style);
      if (!transform) continue;
      element.setAttribute("transform", transform);
      element.removeAttribute("transform-origin");
    }
    for (const sheet of root.querySelectorAll("style")) sheet.remove();
  }

  // A transform from a style sheet becomes an attribute.
  function styleTransform(element, computed) {
    if (element.hasAttribute("transform") || computed.transform === "none") return null;
    const [x, y] = computed.transformOrigin.split(" ").map(parseFloat);
    return `translate(${x} ${y}) ${computed.transform} translate(${-x} ${-y})`;
  }

  // Each of Mermaid's parsers reports positions in its own way.
  function describeError(error) {
    const found = error?.result;
    const lexer = found?.lexerErrors?.[0];
    const token = found?.parserErrors?.[0]?.token;
    // The position of the text before the error: on one line, its end.
    const location = error?.hash?.loc;
    const onOneLine = location?.first_line === location?.last_line;
    const before = onOneLine ? location?.last_column : location.first_column;
    const finiteOrNull = (number) => (Number.isFinite(number) ? number : null);
    return {
      kind: String(error?.name ?? ""),
      reason: String(found ? (lexer ?? found.parserErrors[0]).message : error?.message ?? error),
      token: String(error?.hash?.text ?? ""),
      line: finiteOrNull(
        lexer?.line ?? token?.startLine ?? location?.first_line ?? error?.mark?.line,
      ),
      column: finiteOrNull(lexer?.column ?? token?.startColumn ?? error?.mark?.column),
      preceding_end: finiteOrNull(before),
    };
  }

  function labelToSvg(label, faces) {
    const group = createSvg("g", { class: label.getAttribute("class") ?? "" });
    if (label.hasAttribute("transform")) {
      group.setAttribute("transform", label.getAttribute("transform"));
    }
    const matrix = label.getScreenCTM();
    const text = createSvg("text", {});
    const space = { inverse: matrix.inverse(), scale: Math.hypot(matrix.a, matrix.b) || 1 };
    const walk = document.createTreeWalker(label, NodeFilter.SHOW_ELEMENT | NodeFilter.SHOW_TEXT, {
      acceptNode: (node) => isHidden(node) ? NodeFilter.FILTER_REJECT : NodeFilter.FILTER_ACCEPT,
    });
    for (let node = walk.nextNode(); node; node = walk.nextNode()) {
      if (node.nodeType === Node.TEXT_NODE) {
        text.append(...textLines(node, space, faces));
      } else if (node.namespaceURI === SVG) {
        if (node.localName === "svg") group.append(clippedSvg(node, space));
      } else {
        group.append(...box(node, space));
      }
    }
    if (text.hasChildNodes()) group.append(text);
    return group;
  }

  // Formulas exist twice: visually, and as MathML for screen readers.
  function isHidden(node) {
    return node.nodeType === Node.ELEMENT_NODE && node.classList.contains("katex-mathml");
  }

  function textLines(node, space, faces) {
    if (!/[^\s\u200b]/.test(node.data)) return [];
    const computed = getComputedStyle(node.parentElement);
    const { fontFamily: family, fontSize: size, fontStyle: slant, fontWeight: weight } = computed;
    canvas.font = `${slant} ${weight} ${size} ${family}`;
    const { fontBoundingBoxAscent: above, fontBoundingBoxDescent: below } = canvas.measureText("x");
    const style = [
      `fill:${computed.color}`, "stroke:none", `font-family:${family}`, `font-size:${size}`,
      `font-weight:${weight}`, `font-style:${slant}`, "text-anchor:middle",
      "dominant-baseline:auto",
    ];
    if (computed.textDecorationLine !== "none") {
      style.push(`text-decoration:${computed.textDecorationLine}`);
    }
    faces.set(canvas.font, { family, weight, slant });
    return fragments(node).map(({ text, rectangle }) => {
      const middle = center(rectangle, space);
      const part = createSvg("tspan", {
        x: round(middle.x), y: round(middle.y + (above - below) / 2), style: style.join(";"),
      });
      part.textContent = text;
      return part;
    });
  }

  // Split a text into its rendered lines, each with its rectangle.
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
    const text = node.data.slice(first, last).replace(/\s+/g, " ");
    if (text && rectangle.width) found.push({ text, rectangle });
  }

  // Return the background and the borders of an element.
  function box(element, space) {
    const computed = getComputedStyle(element);
    const shapes = [];
    const paint = (rectangle, color) => {
      if (rectangle.width > 0 && rectangle.height > 0 && !/^rgba\(.*, 0\)$/.test(color)) {
        shapes.push(rectangleOf(rectangle, space, `fill:${color};stroke:none`));
      }
    };
    for (const { x, y, width, height } of element.getClientRects()) {
      paint({ x, y, width, height }, computed.backgroundColor);
      const top = edge(computed, "Top", space);
      const bottom = edge(computed, "Bottom", space);
      const left = edge(computed, "Left", space);
      const right = edge(computed, "Right", space);
      paint({ x, y, width, height: top }, computed.borderTopColor);
      paint({ x, y: y + height - bottom, width, height: bottom }, computed.borderBottomColor);
      paint({ x, y, width: left, height }, computed.borderLeftColor);
      paint({ x: x + width - right, y, width: right, height }, computed.borderRightColor);
    }
    return shapes;
  }

  function edge(computed, side, space) {
    return computed[`border${side}Style`] === "none"
      ? 0 : parseFloat(computed[`border${side}Width`]) * space.scale;
  }

  function rectangleOf(rectangle, space, style) {
    const middle = center(rectangle, space);
    const width = rectangle.width / space.scale;
    const height = rectangle.height / space.scale;
    return createSvg("rect", {
      x: round(middle.x - width / 2), y: round(middle.y - height / 2),
      width: round(width), height: round(height), style,
    });
  }

  // Roots and braces of formulas are far wider than their visible part; clip the rest.
  function clippedSvg(element, space) {
    const all = element.getBoundingClientRect();
    const shown = element.closest(".hide-tail, .halfarrow-left, .halfarrow-right, .brace-left, "
      + ".brace-center, .brace-right")?.getBoundingClientRect() ?? all;
    const left = Math.max(all.left, shown.left);
    const width = Math.min(all.right, shown.right) - left;
    const middle = center({ x: left, y: all.y, width, height: all.height }, space);
    const copy = element.cloneNode(true);
    const size = { width: width / space.scale, height: all.height / space.scale };
    copy.setAttribute("x", round(middle.x - size.width / 2));
    copy.setAttribute("y", round(middle.y - size.height / 2));
    copy.setAttribute("width", round(size.width));
    copy.setAttribute("height", round(size.height));
    const color = getComputedStyle(element).color;
    for (const path of copy.querySelectorAll("path")) {
      path.setAttribute("style", `fill:${color};stroke:none`);
    }
    return copy;
  }

  // Map the center of a rectangle to SVG coordinates, which is correct even if the SVG is rotated.
  function center({ x, y, width, height }, space) {
    return new DOMPoint(x + width / 2, y + height / 2).matrixTransform(space.inverse);
  }

  function round(number) {
    return String(Math.round(number * 100) / 100);
  }

  function createSvg(name, attributes) {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    return element;
  }

  return { prepare, draw };
})();
