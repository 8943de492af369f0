// Draws the lanes of informers and controllers from snapshots.

import { word } from "./words.js";
import { openController, openInformer } from "./detail.js";

const element = (id) => document.getElementById(id);
const KEYS = 12;
const RESULTS = 40;
// How long a finished key stays visible, in milliseconds.
const LINGERING = 1500;

let previous = null;
// Lanes of controllers by name: their elements, and when they last did something.
const lanes = new Map();
let shownInformers = "";

export const milliseconds = (value) => {
  if (value == null) return "–";
  if (value < 1) return `${Math.round(value * 1000)} µs`;
  if (value < 1000) return `${Math.round(value)} ms`;
  if (value < 60000) return `${(value / 1000).toFixed(1)} s`;
  return `${Math.round(value / 60000)} min`;
};

export function make(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) made[name] = value;
    else if (value !== undefined && value !== null) made.setAttribute(name, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

export function drawTitles() {
  element("informers-title").textContent = word("informers");
  element("controllers-title").textContent = word("controllers");
  element("sampling").textContent = word("sampling", { keys: KEYS, results: RESULTS });
  const head = ["informer", "reflector", "fifo", "indexer", "handlers"].map((name) => make("th", { scope: "col" }, word(name)));
  element("informers").tHead.replaceChildren(make("tr", {}, ...head));
  shownInformers = "";
  for (const lane of lanes.values()) lane.root.remove();
  lanes.clear();
}

// Forgets the last snapshot, so that the next one is drawn without rates and without older keys.
export function forgetPipeline() {
  previous = null;
  for (const lane of lanes.values()) lane.lingering = [];
}

export function drawPipeline(now) {
  const seconds = previous ? Math.max(0.05, (Date.parse(now.time) - Date.parse(previous.time)) / 1000) : 0;
  drawInformers(now.informers, seconds);
  drawControllers(now, seconds);
  previous = now;
}

function drawInformers(informers, seconds) {
  const before = new Map((previous?.informers ?? []).map((informer) => [informer.name, informer]));
  const body = element("informers").tBodies[0];
  const names = informers.map((informer) => informer.name).join("\n");
  if (names !== shownInformers) {
    shownInformers = names;
    body.replaceChildren(...informers.map((informer) => {
      const open = make("button", { type: "button", class: "name", onclick: () => openInformer(informer.name) }, informer.name);
      return make("tr", { "data-informer": informer.name },
        make("th", { scope: "row" }, open), make("td"), make("td"), make("td"), make("td"));
    }));
  }
  informers.forEach((informer, index) => {
    const [, reflector, fifo, indexer, handlers] = body.rows[index].cells;
    const old = before.get(informer.name);
    const rate = old && seconds ? (informer.batches - old.batches) / seconds : 0;
    set(reflector, word(informer.state));
    reflector.dataset.state = informer.failures > 0 ? "backing-off" : informer.state;
    set(fifo, informer.queued > 0 ? `${informer.queued} ${word("queued")}` : "·");
    set(indexer, `${informer.objects} ${word("objects")} @ ${informer.resourceVersion || "–"}`);
    set(handlers, informer.handlerLag > 0 ? `${informer.handlerLag} ${word("lag")}` : "·");
    body.rows[index].classList.toggle("moving", rate > 0);
  });
}

function set(cell, text) {
  if (cell.textContent !== text) cell.textContent = text;
}

function drawControllers(now, seconds) {
  const before = new Map((previous?.controllers ?? []).map((lane) => [lane.name, lane]));
  const time = performance.now();
  const total = { reconciles: 0, errors: 0 };
  const [idle, active] = [[], new Set()];
  for (const controller of now.controllers) {
    const old = before.get(controller.name);
    const rate = old && seconds ? (controller.reconciles - old.reconciles) / seconds : 0;
    total.reconciles += rate;
    total.errors += old && seconds ? (controller.errors - old.errors) / seconds : 0;
    const isIdle = controller.reconciles === 0
      && controller.waiting.count + controller.processing.count + controller.delayed.count === 0;
    if (isIdle) {
      idle.push(controller.name);
      continue;
    }
    active.add(controller.name);
    const lane = lanes.get(controller.name) ?? addLane(controller.name);
    drawLane(lane, controller, rate, now.finished.filter((result) => result.controller === controller.name), time);
  }
  for (const [name, lane] of lanes) {
    if (active.has(name)) continue;
    lane.root.remove();
    lanes.delete(name);
  }
  element("rates").textContent =
    `${total.reconciles.toFixed(0)} ${word("reconciles")}${word("perSecond")}, ${total.errors.toFixed(0)} ${word("errors")}${word("perSecond")}`;
  element("quiet").textContent = now.controllers.length === 0 ? word("noControllers")
    : idle.length > 0 ? word("quiet", { count: idle.length, names: idle.join(", ") }) : "";
}

function addLane(name) {
  const stage = (kind) => {
    const count = make("span", { class: "count" });
    const keys = make("ul", { class: "keys" });
    const box = make("div", { class: `stage ${kind}` },
      make("h4", {}, word(kind), " ", count), keys);
    return { box, count, keys, shown: "" };
  };
  const lane = { delayed: stage("delayed"), waiting: stage("waiting"), processing: stage("processing"), done: stage("done"), lingering: [] };
  lane.counts = make("span", { class: "counts" });
  lane.root = make("article", { class: "lane", "data-controller": name },
    make("h3", {}, make("button", { type: "button", class: "name", onclick: () => openController(name) }, name), " ", lane.counts),
    make("div", { class: "stages" }, lane.delayed.box, lane.waiting.box, lane.processing.box, lane.done.box));
  lanes.set(name, lane);
  const container = element("controllers");
  const after = [...container.children].find((other) => other.dataset.controller > name);
  container.insertBefore(lane.root, after ?? null);
  return lane;
}

function drawLane(lane, controller, rate, finished, time) {
  const chips = (keys, describe) => keys.first.map((key) => ({ key: key.key, note: describe(key), retries: key.retries }));
  drawStage(lane.delayed, controller.delayed.count, chips(controller.delayed, (key) => milliseconds(key.due)));
  drawStage(lane.waiting, controller.waiting.count, chips(controller.waiting, (key) => milliseconds(key.age)));
  lane.root.classList.toggle("paused", controller.isPaused);
  const dirty = new Set(controller.dirty);
  drawStage(lane.processing, controller.processing.count,
    chips(controller.processing, (key) => milliseconds(key.age)).map((chip) => ({ ...chip, isDirty: dirty.has(chip.key) })));
  for (const result of finished) lane.lingering.unshift({ result, until: time + LINGERING });
  lane.lingering = lane.lingering.filter((entry) => entry.until > time).slice(0, KEYS);
  drawStage(lane.done, null, lane.lingering.map(({ result }) => ({
    key: result.key, note: milliseconds(result.milliseconds), failed: result.error !== null, title: result.error ?? result.reasons,
  })));
  set(lane.counts, `${controller.isPaused ? `${word("paused")}, ` : ""}${controller.reconciles} ${word("reconciles")}, ${controller.errors} ${word("errors")}`);
  set(lane.done.count, `${rate.toFixed(0)}${word("perSecond")}`);
}

function drawStage(stage, count, chips) {
  if (count !== null) set(stage.count, String(count));
  const shown = JSON.stringify(chips.map((chip) => [chip.key, chip.isDirty, chip.failed, chip.retries]));
  if (shown === stage.shown) {
    chips.forEach((chip, index) => set(stage.keys.children[index].lastChild, chip.note));
    return;
  }
  const old = new Set([...stage.keys.children].map((child) => child.dataset.key));
  stage.shown = shown;
  stage.keys.replaceChildren(...chips.map((chip) => {
    const classes = ["key", chip.isDirty && "dirty", chip.failed && "failed", chip.retries > 0 && "retried", !old.has(chip.key) && "arriving"];
    const title = [chip.title, chip.isDirty && word("dirty"), chip.retries > 0 && `${word("retries")}: ${chip.retries}`].filter(Boolean).join("\n");
    return make("li", { class: classes.filter(Boolean).join(" "), "data-key": chip.key, title: title || null },
      make("span", {}, chip.key), make("small", {}, chip.note));
  }));
}
