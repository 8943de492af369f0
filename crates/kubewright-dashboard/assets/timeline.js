// The time line of a recording: steps forwards and backwards, and the entries around a step.

import { call, showMoment } from "./app.js";
import { openReconcile } from "./detail.js";
import { drawPipeline, forgetPipeline, make } from "./pipeline.js";
import { word } from "./words.js";

const element = (id) => document.getElementById(id);
let recording = null;
let step = 0;
// The step that was asked for last. Answers to older questions are not shown.
let wanted = 0;

export function setUpTimeline(given) {
  recording = given;
  document.body.classList.add("recorded");
  element("timeline").hidden = false;
  element("moment").hidden = false;
  const range = element("timeline-range");
  range.max = String(recording.steps);
  range.oninput = () => goTo(Number(range.value));
  element("timeline-first").onclick = () => goTo(0);
  element("timeline-back").onclick = () => goTo(step - 1);
  element("timeline-on").onclick = () => goTo(step + 1);
  element("timeline-last").onclick = () => goTo(recording.steps);
  element("timeline-failure").onclick = () => {
    const next = recording.failures.find((failure) => failure > step) ?? recording.failures[0];
    if (next !== undefined) goTo(next);
  };
  element("timeline-failure").disabled = recording.failures.length === 0;
  document.addEventListener("keydown", (event) => {
    if (["INPUT", "TEXTAREA"].includes(document.activeElement?.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
    const steps = { ArrowLeft: step - 1, ArrowRight: step + 1, PageUp: step - 20, PageDown: step + 20, Home: 0, End: recording.steps };
    if (event.key in steps) {
      event.preventDefault();
      goTo(steps[event.key]);
    }
  });
  drawTimelineWords();
  // A link may name a step.
  const named = Number(location.hash.slice(1));
  goTo(Number.isInteger(named) && named > 0 ? named : recording.steps);
}

export function drawTimelineWords() {
  if (!recording) return;
  for (const [id, name] of [["first", "first"], ["back", "back"], ["on", "on"], ["last", "last"], ["failure", "nextFailure"]]) {
    const button = element(`timeline-${id}`);
    button.title = word(name);
    button.setAttribute("aria-label", word(name));
  }
  element("timeline").setAttribute("aria-label", word("timeline"));
  element("timeline-range").setAttribute("aria-label", word("step"));
  element("moment-title").textContent = word("happened");
  element("sampling").textContent = word("recordedNote");
}

// Shows the program after this many steps.
export async function goTo(target) {
  wanted = Math.min(Math.max(target, 0), recording.steps);
  const asked = wanted;
  const moment = await call(`api/moment?step=${asked}`);
  if (asked !== wanted) return;
  step = asked;
  history.replaceState(null, "", `${location.pathname}#${step}`);
  const range = element("timeline-range");
  range.value = String(step);
  range.setAttribute("aria-valuetext", `${step} / ${recording.steps}`);
  element("timeline-at").textContent =
    `${step} / ${recording.steps} · ${moment.time.slice(11, 23)} · +${(moment.elapsed / 1e6).toFixed(3)} s`;
  forgetPipeline();
  drawPipeline(moment.pipeline);
  drawMoment(moment);
  showMoment(step);
  document.body.dataset.step = String(step);
}

// Draws the step again, in another language.
export function redrawTimeline() {
  if (recording) goTo(step);
}

function drawMoment(moment) {
  const entries = moment.nearby.map((entry) => make("li", {},
    make("button", {
      type: "button", class: `entry ${entry.kind}${entry.hasFailed ? " failed" : ""}`,
      "aria-current": entry.isCurrent ? "step" : null, onclick: () => goTo(entry.step),
    }, make("b", {}, word(`entry-${entry.kind}`)), ` ${entry.text}`)));
  element("entries").replaceChildren(...entries);
  element("entries").querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
  const parts = [];
  if (moment.reconcile !== null) {
    parts.push(make("p", {}, make("button", { type: "button", class: "link", onclick: () => openReconcile(moment.reconcile) },
      word("showReconcile", { number: moment.reconcile }))));
  }
  if (moment.request) parts.push(drawRequest(moment.request));
  element("moment-request").replaceChildren(...parts);
}

// A request with its response.
export function drawRequest(request) {
  const json = (value) => make("pre", {}, JSON.stringify(value, null, 2));
  const answer = request.error ?? (request.status === null ? word("noAnswer") : String(request.status));
  return make("section", { class: "request" },
    make("p", {}, make("button", { type: "button", class: "link", onclick: () => goTo(request.step) }, request.method),
      ` ${request.path} → `, make("strong", { class: request.error || request.status >= 400 ? "error" : null }, answer)),
    request.body === null ? null : make("details", { open: "" }, make("summary", {}, word("body")), json(request.body)),
    request.response === null ? null : make("details", {}, make("summary", {}, word("response")), json(request.response)));
}
