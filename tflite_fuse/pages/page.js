"use strict";
// What the page can do where scripts run. All it shows is in the JSON behind it; names of a model are text, never markup.

const page = JSON.parse(document.getElementById("figures").textContent);
const { names, kinds } = page.arena;
const maps = { before: page.arena.before, after: page.arena.after };
const figures = [...document.querySelectorAll("figure[data-of]")];
const count = (value) => value.toLocaleString("en-US");
const within = (value, most, least = 0) => Math.min(Math.max(Math.round(Number(value)) || 0, least), most);

function element(parent, tag, attributes = {}, text = "") {
  const space = parent.namespaceURI;
  const made = parent.appendChild(document.createElementNS(space, tag));
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.textContent = text;
  return made;
}

// Places in a picture: its axes reach from (left, top) to (right, bottom), where values are those behind these.
function axes(svg) {
  const [left, top, right, bottom, first, most, last, least] = svg.dataset.axes.split(" ").map(Number);
  return {
    x: (step) => left + ((step - first) / (last - first)) * (right - left),
    y: (value) => bottom + ((value - least) / (most - least)) * (top - bottom),
    step: (x) => first + ((x - left) / (right - left)) * (last - first),
    left, top, right, bottom, most, least,
  };
}

function outline(svg, boxes) {
  const { x, y } = axes(svg);
  const at = (value) => value.toFixed(1);
  return boxes.map(([, , first, last, offset, size]) =>
    `M${at(x(first - 0.5))} ${at(y(offset))}H${at(x(last + 0.5))}V${at(y(offset + size))}H${at(x(first - 0.5))}Z`).join("");
}

const inStep = (map, step) => map.boxes.filter((box) => box[2] <= step && step <= box[3]);
const when = (step) => (step < 0 ? "start" : String(step));
const nameOf = (map, step) => (step < 0 ? "before the first operator" : names[map.steps[step]]);

// Shows what lies in the arena at a step, in one of the figures and in all pictures of it.
function show(of, step) {
  const map = maps[of], boxes = inStep(map, step).sort((one, other) => other[5] - one[5]);
  const known = page.steps[of] && step >= 0 ? `, ${count(page.steps[of][step].working_set_bytes)} bytes live` : "";
  for (const figure of figures.filter((each) => each.dataset.of === of)) {
    const svg = figure.querySelector("svg"), { x, top, bottom } = axes(svg);
    svg.querySelector(".step")?.remove();
    const marked = element(svg, "g", { class: "step" });
    const sides = { x: x(step - 0.5), width: x(step + 0.5) - x(step - 0.5), y: top, height: bottom - top };
    element(marked, "rect", sides);
    if (!figure.querySelector("input")) continue;
    element(marked, "path", { d: outline(svg, boxes) });
    figure.querySelector("input").value = step;
    figure.querySelector("output").textContent = `${step < 0 ? "" : "step "}${when(step)}: ${nameOf(map, step)}${known}`;
    const body = figure.querySelector("tbody");
    body.replaceChildren();
    for (const [name, kind, first, last, offset, size] of boxes) {
      const row = element(body, "tr");
      element(element(row, "td"), "span", { class: "key", style: `background: var(--${kinds[kind]})` });
      row.firstChild.append(names[name]);
      const life = first === last ? when(first) : `${when(first)} to ${when(last)}`;
      for (const text of [count(size), count(offset), life]) element(row, "td", { class: "n" }, text);
    }
  }
}

// Shows one point of the front: its figures, its dot, and its arena in the picture that the others gave its axes.
function choose(number) {
  const point = page.front[number], figure = document.querySelector("figure[data-of=point]");
  maps.point = point.arena;
  for (const dot of document.querySelectorAll("[data-part^=point]"))
    dot.classList.toggle("chosen", dot.dataset.part === `point${number}`);
  for (const row of document.querySelectorAll("#points tr")) row.classList.toggle("chosen", row.id === `point=${number}`);
  document.getElementById("point").value = number;
  document.getElementById("chosen").textContent =
    `${count(point.ram_bytes)} bytes, ${count(point.instructions)} instructions, ` +
    `${point.compute_factor.toFixed(2)} times those of the original; ` +
    (point.fused.length ? `blocks: ${point.fused.join(", ")}` : "no blocks") +
    (point.marks.length ? `; goal: ${point.marks.join(", ")}` : "");
  const svg = figure.querySelector("svg"), steps = point.arena.steps.length;
  const { left, top, right, bottom, most, least } = axes(svg);
  svg.dataset.axes = [left, top, right, bottom, -1.5, most, Math.max(steps - 0.5, 0.5), least].join(" ");
  svg.querySelector(".boxes")?.remove();
  const drawn = element(svg, "g", { class: "boxes" });
  kinds.forEach((kind, at) => {
    const boxes = point.arena.boxes.filter((box) => box[1] === at);
    element(drawn, "path", { d: outline(svg, boxes), style: `fill: var(--${kind})` });
  });
  figure.querySelector("input").max = steps - 1;
  show("point", within(figure.querySelector("input").value, steps - 1, -1));
}

function find(text) {
  const wanted = text.trim().toLowerCase(), list = document.getElementById("found"), links = new Map();
  const has = (name) => names[name].toLowerCase().includes(wanted);
  for (const of of wanted ? ["before", "after"] : []) {
    maps[of].steps.forEach((name, step) => has(name) && links.set(`${of}=${step}`, `${of}: ${names[name]}`));
    for (const [name, , first] of maps[of].boxes)
      if (has(name) && !links.has(`${of}=${first}`)) links.set(`${of}=${first}`, `${of}: ${names[name]}`);
  }
  list.replaceChildren();
  for (const [place, name] of [...links].slice(0, 20))
    element(element(list, "li"), "a", { href: `#${place}` }, name);
  if (wanted) element(list, "li", { class: "quiet" }, `${count(links.size)} found`);
}

// Addresses such as report.html#after=3, #point=2&point-step=4 or #find=conv show what they name.
function follow() {
  for (const [key, value] of new URLSearchParams(location.hash.slice(1))) {
    const of = key === "point-step" ? "point" : key;
    if (key === "point" && page.front.length) choose(within(value, page.front.length - 1));
    else if (Object.hasOwn(maps, of)) show(of, within(value, maps[of].steps.length - 1, -1));
    else if (key === "find") find((document.getElementById("find").value = value));
    else continue;
    document.getElementById(of)?.closest("figure, section")?.scrollIntoView({ block: "nearest" });
  }
}

const remember = (place) => history.replaceState(null, "", `#${place}`);

function start() {
  for (const hidden of document.querySelectorAll(".live")) hidden.hidden = false;
  for (const figure of figures) {
    const { of } = figure.dataset, svg = figure.querySelector("svg"), input = figure.querySelector("input");
    const key = of === "point" ? "point-step" : of;
    const under = (event) => {
      const spot = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
      return within(axes(svg).step(spot.x), maps[of].steps.length - 1, -1);
    };
    svg.addEventListener("pointermove", (event) => show(of, under(event)));
    svg.addEventListener("click", (event) => { show(of, under(event)); remember(`${key}=${under(event)}`); });
    input?.addEventListener("input", () => { show(of, Number(input.value)); remember(`${key}=${input.value}`); });
  }
  const along = document.getElementById("point");
  along?.addEventListener("input", () => { choose(Number(along.value)); remember(`point=${along.value}`); });
  for (const dot of document.querySelectorAll("[data-part^=point]"))
    dot.addEventListener("click", () => { location.hash = `point=${dot.dataset.part.slice(5)}`; });
  document.getElementById("find").addEventListener("input", (event) => find(event.target.value));
  if (along) choose(within(along.value, page.front.length - 1));
  for (const of of ["before", "after"]) show(of, page.steps[of].findIndex((step) => step.bottleneck));
  addEventListener("hashchange", follow);
  follow();
}

start();
