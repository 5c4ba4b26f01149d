"use strict";
// The page asks the server for the answer to what its controls say, and shows it. The URL always has their state.

const form = document.getElementById("controls");
const at = (id) => document.getElementById(id);

// An element with a class, text and children.
function made(tag, kind = "", text = "", ...children) {
  const element = document.createElement(tag);
  element.className = kind;
  element.textContent = text;
  element.append(...children);
  return element;
}

// Controls

function query() {
  return new URLSearchParams(new FormData(form)).toString();
}

// Set a control to a text; what it does not take is the server's to refuse, in words.
function set(name, text) {
  const field = form.elements[name];
  if (!field) return;
  if (field.tagName === "SELECT" && ![...field.options].some((option) => option.value === text))
    field.add(new Option(text, text));
  field.value = text;
}

// Sliders stand where the logarithms of their numbers are.
function align() {
  for (const slider of form.querySelectorAll("input[type=range]"))
    slider.value = Math.log2(form.elements[slider.dataset.for].value) || 0;
}

function slid(slider) {
  const field = form.elements[slider.dataset.for], value = 2 ** slider.value;
  field.value = field.step === "any" ? Number(value.toPrecision(3)) : Math.max(1, Number(Math.round(value).toPrecision(2)));
}

form.addEventListener("input", (event) => {
  if (event.target.type === "range") slid(event.target);
  else align();
  ask(query());
});
form.addEventListener("submit", (event) => event.preventDefault());
form.addEventListener("reset", () => setTimeout(() => { align(); ask(query()); }));
addEventListener("popstate", restore);

function restore() {
  form.reset();
  for (const [name, text] of new URLSearchParams(location.search)) set(name, text);
  align();
  // The URL itself is asked: the server names what is wrong in it.
  ask(location.search.slice(1));
}

// Answers

const QUIET = 120; // ms without a change after which the curve is asked for

let wanted = null, asking = false, changed = () => {};
let last = "", seen = ""; // the newest question, and the answer to it that is shown

// A file of the command line may have changed in an editor: whoever comes back to the page sees what it says now.
addEventListener("focus", () => {
  if (["hardware", "model"].some((name) => form.elements[name].querySelector("optgroup"))) ask(last);
});

// One question at a time: while one is answered, only the newest of those that follow is kept.
async function ask(text) {
  wanted = last = text;
  changed();
  if (asking) return;
  asking = true;
  while (wanted !== null) {
    const asked = wanted, begun = performance.now();
    wanted = null;
    const answer = await fetched("answer", asked), found = JSON.stringify([asked, answer]);
    // What has not changed stays as it is: a text on the page may be marked.
    if (found !== seen) show(answer, asked, performance.now() - begun);
    seen = found;
    if (answer.error || !answer.steps.decode) continue;
    // The curve waits until the controls rest, so that figures follow them at once.
    await new Promise((rested) => { changed = rested; setTimeout(rested, QUIET); });
    if (wanted === null) {
      const curve = await fetched("curve", asked);
      if (wanted === null && !curve.error) draw(curve);
    }
  }
  asking = false;
}

async function fetched(what, text) {
  try {
    const response = await fetch(`${what}?${text}`);
    const body = await response.text();
    return response.headers.get("content-type")?.startsWith("application/json")
      ? JSON.parse(body)
      : { error: `the server has failed (${response.status}): its terminal says why` };
  } catch {
    return { error: "the server does not answer: start jaxroof ui again" };
  }
}

function show(answer, asked, milliseconds) {
  history.replaceState(null, "", `${location.pathname}?${answer.error ? asked : answer.query}`.replace(/\?$/, ""));
  at("error").hidden = !answer.error;
  at("error").textContent = answer.error ?? "";
  at("shown").classList.toggle("stale", Boolean(answer.error));
  if (answer.error) return;
  at("shown").hidden = false;
  at("title").textContent = answer.title;
  at("setting").textContent = answer.setting;
  at("figures").replaceChildren(...answer.figures.map(figure));
  at("memory").textContent = answer.memory;
  at("memory").className = answer.fits ? "fits" : "fails";
  at("beyond").hidden = !answer.beyond;
  at("steps").replaceChildren(...Object.entries(answer.steps).map(([name, one]) => step(name, one)));
  at("notes").replaceChildren(...answer.notes.map((note) => made("li", "", note)));
  at("assumptions").textContent = `Assumptions (${answer.notes.length})`;
  for (const [name, text] of Object.entries(answer.scaled)) scaled(form.elements[name], text);
  // A line of the command breaks between flags, not inside of one.
  at("command").replaceChildren(...answer.command.split(/ (?=--)/).flatMap((part, i) => [i ? " " : "", made("span", "flag", part)]));
  at("python").textContent = answer.python;
  at("curve").hidden = !answer.steps.decode;
  at("time").textContent = `answered in ${milliseconds.toFixed(0)} ms`;
}

// What a factor makes of a figure of the accelerator; a figure that it does not have cannot be changed.
function scaled(field, text) {
  field.disabled = form.querySelector(`[data-for=${field.name}]`).disabled = !text;
  at(`${field.name}-figure`).textContent = !text ? "none" : Number(field.value) === 1 ? text : `\u00d7 ${field.value} = ${text}`;
}

function figure(one) {
  const card = made("div", "", "", made("dt", "", one.label), made("dd", "value", one.text));
  card.dataset.name = one.name;
  card.title = one.meaning;
  card.append(made("dd", "interval", one.interval));
  return card;
}

function step(name, one) {
  const bars = made("ul", "bars");
  for (const op of one.ops) {
    const bar = made("span", "bar"), row = made("li", "", "", made("span", "name", op.name));
    bar.style.width = `${100 * op.share}%`;
    if (op.colour) bar.style.background = op.colour;
    row.append(made("span", "track", "", bar), made("span", "time", op.text));
    row.title = `${op.name}: ${(100 * op.share).toFixed(1)} %${op.bound && `, bound by ${op.bound}`}`;
    bars.append(row);
  }
  const bounds = made("p", "quiet bounds", "bound by");
  for (const bound of one.bounds) {
    const key = made("span", "key");
    key.style.background = bound.colour;
    bounds.append(made("span", "", "", key, bound.text), " ");
  }
  const title = name[0].toUpperCase() + name.slice(1);
  return made("div", "", "", made("h3", "", `${title} step: ${one.time}, bound by ${one.binds}`), bounds, bars);
}

// The curve

const WIDEST = 640, HEIGHT = 300, LEFT = 62, RIGHT = 18, TOP = 14, BOTTOM = 44;

let sketched = null; // the curve that is shown

function drawn(tag, attributes, text) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

// A logarithmic axis: the place of a number, and ticks at few or many of the digits, so that there are four at least.
function axis(numbers, first, last) {
  const low = Math.log(Math.min(...numbers) / 1.15), high = Math.log(Math.max(...numbers) * 1.15);
  const place = (number) => first + (last - first) * (Math.log(number) - low) / (high - low);
  const decades = [...Array(31).keys()].map((power) => power - 15);
  const ticks = [[1, 2, 5], [1, 2, 3, 5, 7], [1, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9]].map((digits) =>
    decades.flatMap((power) => digits.map((digit) => digit * 10 ** power))
      .filter((tick) => Math.log(tick) >= low && Math.log(tick) <= high));
  return [place, ticks.find((some) => some.length >= 4) ?? ticks.at(-1)];
}

addEventListener("resize", () => { if (sketched) draw(sketched); });

function draw(curve) {
  sketched = curve;
  const milliseconds = curve.tpot.map((seconds) => 1e3 * seconds);
  // As wide as there is room, so that its words are as large as those around it.
  const WIDTH = Math.min(WIDEST, Math.max(280, at("curve").clientWidth));
  const [x, across] = axis(curve.rate, LEFT, WIDTH - RIGHT), [y, up] = axis(milliseconds, HEIGHT - BOTTOM, TOP);
  const own = `${curve.batch[curve.own]} requests: ${milliseconds[curve.own].toPrecision(3)} ms`;
  const svg = drawn("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img",
    "aria-label": `Time per output token against tokens per second and device; ${own}` });
  let taken = 0; // where the last number ends
  for (const tick of across) {
    const number = tick.toLocaleString("en"), half = 3.5 * number.length + 3;
    svg.append(drawn("line", { class: "axis", x1: x(tick), x2: x(tick), y1: TOP, y2: HEIGHT - BOTTOM }));
    if (x(tick) - half < taken) continue;
    svg.append(drawn("text", { x: x(tick), y: HEIGHT - BOTTOM + 16, "text-anchor": "middle" }, number));
    taken = x(tick) + half;
  }
  for (const tick of up) {
    svg.append(drawn("line", { class: "axis", x1: LEFT, x2: WIDTH - RIGHT, y1: y(tick), y2: y(tick) }),
      drawn("text", { x: LEFT - 6, y: y(tick) + 4, "text-anchor": "end" }, tick.toLocaleString("en")));
  }
  svg.append(drawn("text", { x: (LEFT + WIDTH - RIGHT) / 2, y: HEIGHT - 6, "text-anchor": "middle" },
    "output tokens per second and device"));
  svg.append(drawn("text", { transform: `translate(14 ${(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)`, "text-anchor": "middle" },
    "TPOT, ms"));
  const places = milliseconds.map((time, i) => [x(curve.rate[i]), y(time)]);
  svg.append(drawn("polyline", { class: "line", points: places.join(" ") }));
  places.forEach(([cx, cy], i) => {
    const fits = curve.fits[i], point = drawn("circle", { class: fits ? "point" : "point fails", cx, cy, r: 4 });
    point.append(drawn("title", {}, `${curve.batch[i]} requests at once: ${milliseconds[i].toPrecision(3)} ms per token, `
      + `${curve.rate[i].toPrecision(3)} tokens/s per device${fits ? "" : "; does not fit"}`));
    svg.append(point);
    // Labels beside the rising line; the state's own always, others where there is room. None goes over the axis.
    const away = i === curve.own ? 10 : 7, label = String(curve.batch[i]), left = cx - away - 7 * label.length < LEFT + 4;
    if (i === curve.own || (i % 2 === 0 && Math.abs(i - curve.own) > 1))
      svg.append(drawn("text", { x: left ? LEFT + 6 : cx - away, y: cy - away - 1 - 4 * left, "text-anchor": left ? "start" : "end" }, label));
  });
  svg.append(drawn("circle", { class: "own", cx: places[curve.own][0], cy: places[curve.own][1], r: 8 }));
  const caption = at("curve").querySelector("figcaption");
  caption.textContent = "Latency against throughput, by requests at once"
    + (curve.fits.every(Boolean) ? "" : " (hollow: does not fit in memory)");
  at("curve").replaceChildren(caption, svg);
}

// Copies

function copies(button, text) {
  const label = button.textContent;
  navigator.clipboard.writeText(text()).then(() => "Copied", () => "Not allowed").then((said) => {
    button.textContent = said;
    setTimeout(() => { button.textContent = label; }, 1200);
  });
}

for (const button of document.querySelectorAll("[data-copies]"))
  button.addEventListener("click", () => copies(button, () => at(button.dataset.copies).textContent));
at("share").addEventListener("click", (event) => copies(event.target, () => location.href));

restore();
