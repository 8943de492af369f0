// The page: connection, language, theme, search. `pipeline` draws lanes, `detail` draws one thing.

import { currentLanguage, switchLanguage, word } from "./words.js";
import { drawPipeline, drawTitles } from "./pipeline.js";
import { closeDetail, openApply, openObject, refreshDetail, setUpDetail } from "./detail.js";
import { drawTimelineWords, redrawTimeline, setUpTimeline } from "./timeline.js";

const element = (id) => document.getElementById(id);

// The token leaves the address bar, so that it gets into no screenshot and no history.
const given = new URLSearchParams(location.search).get("token");
if (given) {
  sessionStorage.setItem("kubewright-token", given);
  history.replaceState(null, "", location.pathname + location.hash);
}
const token = sessionStorage.getItem("kubewright-token") ?? "";

// The step of a recording that the page shows; null for a running program.
let moment = null;

export function showMoment(step) {
  moment = step;
  showStatus("recorded");
  refreshDetail(true);
}

// Calls the API of the page. Errors have the sentence of the server.
export async function call(path, options = {}) {
  const headers = { Authorization: `Bearer ${token}`, ...options.headers };
  const isOfMoment = moment !== null && !/[?&]step=/.test(path);
  const at = isOfMoment ? `${path}${path.includes("?") ? "&" : "?"}step=${moment}` : path;
  const response = await fetch(at, { ...options, headers });
  if (!response.ok) throw new Error(await response.text());
  return response.json();
}

let status = "connecting";
function showStatus(now) {
  status = now;
  const shown = element("status");
  shown.textContent = word(now);
  shown.dataset.status = now;
}

function connect() {
  const stream = new EventSource(`api/stream?token=${encodeURIComponent(token)}`);
  stream.onmessage = (event) => {
    if (status !== "live") showStatus("live");
    drawPipeline(JSON.parse(event.data));
    refreshDetail();
  };
  stream.onerror = async () => {
    stream.close();
    // An event stream does not tell why it failed.
    const refused = await fetch("api/settings", { headers: { Authorization: `Bearer ${token}` } })
      .then((response) => response.status === 401, () => false);
    showStatus(refused ? "refused" : "lost");
    if (!refused) setTimeout(connect, 1000);
  };
}

function drawWords() {
  document.documentElement.lang = currentLanguage();
  element("language").textContent = currentLanguage() === "en" ? "中文" : "English";
  element("theme").textContent = "◐";
  element("theme").title = word("theme");
  element("theme").setAttribute("aria-label", word("theme"));
  element("search-resource").placeholder = word("resource");
  element("search-resource").setAttribute("aria-label", word("resource"));
  element("search-key").placeholder = word("key");
  element("search-key").setAttribute("aria-label", word("key"));
  element("search-button").textContent = word("open");
  element("apply-button").textContent = word("apply");
  element("detail-close").setAttribute("aria-label", word("close"));
  drawTitles();
  drawTimelineWords();
  showStatus(status);
}

element("language").onclick = () => {
  switchLanguage();
  drawWords();
  redrawTimeline();
  refreshDetail(true);
};
element("theme").onclick = () => {
  const root = document.documentElement;
  const isDark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = isDark ? "light" : "dark";
  localStorage.setItem("kubewright-theme", root.dataset.theme);
};
const theme = localStorage.getItem("kubewright-theme");
if (theme) document.documentElement.dataset.theme = theme;

element("search").onsubmit = (event) => {
  event.preventDefault();
  openObject(element("search-resource").value.trim(), element("search-key").value.trim());
};
element("apply-button").onclick = () => openApply();
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") closeDetail();
  if (event.key === "/" && !["INPUT", "TEXTAREA"].includes(document.activeElement?.tagName)) {
    event.preventDefault();
    element("search-resource").focus();
  }
});

drawWords();
if (token === "") {
  showStatus("refused");
} else {
  call("api/settings").then((settings) => {
    setUpDetail(settings);
    element("apply-button").hidden = !settings.allowsActions;
    if (settings.recording) return setUpTimeline(settings.recording);
    connect();
  }).catch(connect);
}
