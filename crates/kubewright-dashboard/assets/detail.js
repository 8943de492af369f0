// Draws one informer, controller or object beside the lanes, and asks for actions.

import { call } from "./app.js";
import { make, milliseconds } from "./pipeline.js";
import { drawRequest, goTo } from "./timeline.js";
import { word } from "./words.js";

const element = (id) => document.getElementById(id);
let settings = { allowsActions: false };
// What is shown, so that it can be drawn again, and whether that happens by itself.
let shown = null;
let lastDrawn = 0;

export function setUpDetail(given) {
  settings = given;
  element("detail-close").onclick = closeDetail;
}

export function closeDetail() {
  if (!shown) return;
  element("detail").hidden = true;
  document.body.classList.remove("with-detail");
  shown.opener?.focus?.();
  shown = null;
}

async function open(title, draw, isLive) {
  const opener = shown?.opener ?? document.activeElement;
  shown = { draw, isLive, opener };
  element("detail-title").textContent = title;
  element("detail").hidden = false;
  document.body.classList.add("with-detail");
  await drawAgain();
  element("detail").focus();
}

async function drawAgain() {
  const current = shown;
  lastDrawn = performance.now();
  let content;
  try {
    content = await current.draw();
  } catch (error) {
    content = [make("p", { class: "error", role: "alert" }, error.message)];
  }
  if (shown === current) element("detail-body").replaceChildren(...content);
}

// Draws again what changes, once a second, unless the user writes or selects something in it.
export function refreshDetail(isForced = false) {
  if (!shown || (!isForced && (!shown.isLive || performance.now() - lastDrawn < 1000))) return;
  const body = element("detail-body");
  const isSelecting = !getSelection().isCollapsed && body.contains(getSelection().anchorNode);
  if (!isForced && (body.contains(document.activeElement) || isSelecting)) return;
  drawAgain();
}

const facts = (pairs) => make("dl", {}, ...pairs.filter(([, value]) => value !== null && value !== undefined)
  .flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, String(value))]));

export function openInformer(name) {
  return open(name, async () => {
    const { informers } = await call("api/pipeline");
    const informer = informers.find((informer) => informer.name === name);
    if (!informer) return [make("p", {}, word("stopped"))];
    return [facts([
      [word("state"), `${word(informer.state)}, ${milliseconds(informer.stateMilliseconds)}`],
      [word("objects"), informer.objects], [word("version"), informer.resourceVersion],
      [word("fifo"), `${informer.queued} ${word("queued")}`], [word("handlers"), `${informer.handlerLag} ${word("lag")}`],
      [word("batches"), informer.batches], [word("lists"), informer.lists], [word("failures"), informer.failures],
      [word("undecodable"), informer.undecodable], [word("silence"), milliseconds(informer.silenceMilliseconds)],
      [word("lastError"), informer.lastError],
    ])];
  }, true);
}

export function openController(name) {
  return open(name, async () => {
    const controller = await call(`api/controller?name=${encodeURIComponent(name)}`);
    const list = (kind, describe) => controller[kind].count === 0 ? null : make("section", {},
      make("h3", {}, `${word(kind)} ${controller[kind].count}`),
      make("ul", { class: "plain" }, ...controller[kind].first.map((key) =>
        make("li", {}, keyButton(name, key.key), ` ${describe(key)}`, key.retries ? ` · ${word("retries")} ${key.retries}` : ""))));
    return [
      pausing(name, controller.isPaused),
      list("processing", (key) => `${word("age")} ${milliseconds(key.age)}`),
      list("waiting", (key) => `${word("age")} ${milliseconds(key.age)}`),
      list("delayed", (key) => `${word("due")} ${milliseconds(key.due)}`),
      make("h3", {}, word("reconcilesOf")), reconciles(controller.recent, name),
    ].filter(Boolean);
  }, true);
}

// Buttons that pause a controller and step it.
function pausing(controller, isPaused) {
  if (!settings.allowsActions) return null;
  const said = message();
  const button = (name) => make("button", { type: "button", class: name, onclick: async () => {
    await act(name, JSON.stringify({ controller }), said);
    document.activeElement?.blur();
    refreshDetail(true);
  } }, word(name));
  return make("div", { class: "actions" }, ...(isPaused ? [button("step"), button("resume")] : [button("pause")]), said);
}

// The keys of a controller are objects of the resource that it is named after.
const keyButton = (controller, key) =>
  make("button", { type: "button", class: "link", onclick: () => openObject(controller.replace(/-controller$/, ""), key) }, key);

function reconciles(list, controller) {
  if (list.length === 0) return make("p", {}, word("noReconciles"));
  return make("ol", { class: "plain reconciles" }, ...list.slice(0, 100).map((result) => make("li", { class: result.error ? "failed" : null },
    make("time", {}, result.ended.slice(11, 23)), " ",
    controller ? keyButton(controller, result.key) : result.controller,
    result.number ? make("span", {}, " ", make("button", { type: "button", class: "link", onclick: () => openReconcile(result.number) }, `#${result.number}`)) : null,
    ` ${milliseconds(result.milliseconds)}`,
    result.attempt > 1 ? ` · ${word("attempt")} ${result.attempt}` : "",
    result.requeueAfter !== null ? ` · ${word("requeue")} ${milliseconds(result.requeueAfter)}` : "",
    result.reasons ? make("div", { class: "note" }, `${word("because")} ${result.reasons}`) : null,
    result.error ? make("div", { class: "error" }, result.error) : null)));
}

// A reconcile of a recording: what it read, and what it wrote.
export function openReconcile(number) {
  return open(word("reconcileNumber", { number }), async () => {
    const found = await call(`api/reconcile?number=${number}`);
    const ended = found.ended;
    return [
      make("p", {}, `${found.controller} `, keyButton(found.controller, found.key), " ",
        make("button", { type: "button", class: "link", onclick: () => goTo(found.step) }, word("goToStart"))),
      ended?.reasons ? make("p", { class: "note" }, `${word("because")} ${ended.reasons}`) : null,
      ended?.error ? make("p", { class: "error" }, ended.error) : null,
      facts([
        [word("attempt"), ended?.attempt], [word("duration"), ended ? milliseconds(ended.milliseconds) : word("unfinished")],
        [word("cachesRead"), found.reads.join(", ") || "–"], [word("clockRead"), found.clock.join(", ") || null],
        [word("randomDrawn"), found.random.join(", ") || null],
      ]),
      make("h3", {}, word("requests")),
      ...(found.requests.length ? found.requests.map(drawRequest) : [make("p", {}, word("noRequests"))]),
    ].filter(Boolean);
  }, false);
}

export function openObject(resource, key) {
  return open(`${resource} ${key}`, async () => {
    const object = await call(`api/object?resource=${encodeURIComponent(resource)}&key=${encodeURIComponent(key)}`);
    element("detail-title").textContent = `${object.kind} ${object.key}`;
    const versions = object.versions.map((version) => make("li", {},
      make("strong", {}, `${version.version} ${word(version.change)}`),
      version.writers.length ? ` ${word("by")} ${version.writers.join(", ")}` : "",
      make("pre", { class: "differences" }, version.differences.join("\n"))));
    return [
      object.yaml === null ? make("p", {}, word("gone")) : null,
      actions(object),
      make("h3", {}, word("tree")), object.tree ? make("ul", { class: "tree" }, branch(object.tree)) : make("p", {}, word("noTree")),
      make("h3", {}, word("reconcilesOf")), reconciles(object.reconciles, null),
      make("h3", {}, word("events")),
      object.events.length ? make("ul", { class: "plain" }, ...object.events.map((event) => make("li", {}, event))) : make("p", {}, word("noEvents")),
      make("h3", {}, word("versions")), versions.length ? make("ol", { class: "plain" }, ...versions) : make("p", {}, word("noVersions")),
      object.yaml === null ? null : make("details", {}, make("summary", {}, word("yaml")), editor(object.yaml, word("applyEdit"))),
    ].filter(Boolean);
  }, false);
}

const branch = (relative) => make("li", {},
  relative.isShown ? make("strong", {}, `${relative.kind} ${relative.key}`)
    : make("button", { type: "button", class: "link", onclick: () => openObject(relative.resource, relative.key) }, `${relative.kind} ${relative.key}`),
  relative.dependents.length ? make("ul", {}, ...relative.dependents.map(branch)) : null);

const message = () => make("p", { class: "message", role: "status" });

// Sends an action, and shows what came of it.
async function act(name, body, shownIn) {
  try {
    const done = await call(`api/actions/${name}`, { method: "POST", body });
    shownIn.textContent = done.message;
    shownIn.classList.remove("error");
  } catch (error) {
    shownIn.textContent = error.message;
    shownIn.classList.add("error");
  }
}

function actions({ resource, key, kind, yaml }) {
  if (!settings.allowsActions || yaml === null) return null;
  const said = message();
  const target = (more) => JSON.stringify({ resource, key, ...more });
  const button = (label, onclick) => make("button", { type: "button", onclick }, label);
  const scalable = ["Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"].includes(kind);
  const replicas = make("input", { type: "number", min: "0", value: /^ {2}replicas: (\d+)$/m.exec(yaml)?.[1] ?? "1", "aria-label": word("replicas"), id: "replicas" });
  return make("div", { class: "actions" },
    scalable ? make("span", {}, replicas, button(word("scale"), () => act("scale", target({ replicas: Number(replicas.value) }), said))) : null,
    kind === "Pod" ? button(word("fail"), () => act("fail", target({}), said)) : null,
    kind === "Node" ? button(word("cordon"), () => act("cordon", target({ cordoned: true }), said)) : null,
    kind === "Node" ? button(word("uncordon"), () => act("cordon", target({ cordoned: false }), said)) : null,
    button(word("remove"), () => confirm(word("sure", { key })) && act("delete", target({}), said)),
    said);
}

function editor(text, label) {
  const area = make("textarea", { rows: "24", spellcheck: "false", "aria-label": word("manifest"), readonly: settings.allowsActions ? null : "" });
  area.value = text;
  const said = message();
  const button = make("button", { type: "button", onclick: () => act("apply", area.value, said) }, label);
  return make("div", {}, area, settings.allowsActions ? button : null, said);
}

export const openApply = () => open(word("apply"), async () => [editor("", word("apply"))], false);
