// The words of the page in English and Chinese. Nouns of client-go stay as they are.

const WORDS = {
  en: {
    connecting: "connecting …", live: "live", lost: "connection lost, trying again",
    refused: "the token is missing or wrong: open the whole URL that the program printed",
    informers: "API server → Reflector → DeltaFIFO → Indexer → handlers",
    controllers: "Work queue → workers → API server",
    informer: "informer", reflector: "Reflector", fifo: "DeltaFIFO", indexer: "Indexer", handlers: "handlers",
    objects: "objects", version: "resourceVersion", lag: "events behind", queued: "keys with deltas",
    state: "state", waiting: "waiting", processing: "processing", delayed: "delayed", done: "reconciled",
    reconciles: "reconciles", errors: "errors", perSecond: "/s", oldest: "oldest", retries: "retries",
    dirty: "changed again while processed", due: "due in", age: "for", more: "more",
    idle: "idle", listing: "listing", watching: "watching", "backing-off": "backing off", absent: "no such resource",
    stopped: "stopped", unknown: "unknown", lists: "lists", failures: "failures since the last success",
    silence: "since the server sent anything", lastError: "last error", undecodable: "undecodable objects",
    batches: "batches applied", noControllers: "No controller is observed.",
    quiet: "{count} idle controllers are not shown: {names}.",
    sampling: "The page samples: four snapshots a second, the first {keys} keys of each queue, and at most {results} of the reconciles between two snapshots. Counts are complete.",
    resource: "resource", key: "namespace/name", open: "Open", close: "Close", theme: "Dark or light",
    versions: "Versions", reconcilesOf: "Reconciles", events: "Events", tree: "Owner tree", yaml: "YAML",
    gone: "The object does not exist any more.", noVersions: "The server's log has no version of it.",
    noReconciles: "No reconcile of this key has been seen.", noEvents: "No events.", noTree: "It owns nothing, and nothing owns it.",
    by: "by", because: "because", attempt: "attempt", requeue: "again after", created: "created", updated: "updated", deleted: "deleted",
    apply: "Apply YAML", applyEdit: "Apply changes", remove: "Delete", scale: "Scale", cordon: "Cordon", uncordon: "Uncordon",
    replicas: "replicas", sure: "Delete {key}?", keysOf: "Keys", manifest: "Manifest",
    pause: "Pause", resume: "Resume", paused: "paused", fail: "Fail",
    recorded: "recording", timeline: "Time line", step: "Step", first: "First step (Home)", back: "One step back (←)",
    on: "One step forward (→)", last: "Last step (End)", nextFailure: "Next failed reconcile", happened: "What happened",
    recordedNote: "A recording: the caches and the reconciles are those of this step. The queue is derived from the reasons of later reconciles.",
    "entry-applied": "cache", "entry-began": "began", "entry-write": "write", "entry-read": "read",
    "entry-response": "answer", "entry-ended": "ended", showReconcile: "Show reconcile {number}", noAnswer: "no answer",
    body: "Body", response: "Response", reconcileNumber: "Reconcile {number}", goToStart: "Go to its start",
    duration: "duration", unfinished: "not finished", cachesRead: "caches read", clockRead: "clock readings",
    randomDrawn: "random draws", requests: "Requests", noRequests: "It sent no request.",
  },
  zh: {
    connecting: "正在连接 …", live: "实时", lost: "连接中断，正在重试",
    refused: "令牌缺失或错误：请打开程序打印的完整 URL",
    informers: "API server → Reflector → DeltaFIFO → Indexer → 处理函数",
    controllers: "工作队列 → worker → API server",
    informer: "informer", reflector: "Reflector", fifo: "DeltaFIFO", indexer: "Indexer", handlers: "处理函数",
    objects: "个对象", version: "resourceVersion", lag: "个事件未处理", queued: "个键有 delta",
    state: "状态", waiting: "等待", processing: "处理中", delayed: "延迟", done: "已调谐",
    reconciles: "次调谐", errors: "次错误", perSecond: "/秒", oldest: "最久", retries: "重试",
    dirty: "处理期间又有变化", due: "到期", age: "已", more: "更多",
    idle: "空闲", listing: "列举中", watching: "监听中", "backing-off": "退避中", absent: "没有此资源",
    stopped: "已停止", unknown: "未知", lists: "次列举", failures: "次失败（自上次成功）",
    silence: "自服务器上次发送", lastError: "最后的错误", undecodable: "个无法解码的对象",
    batches: "批变更已应用", noControllers: "没有被观察的控制器。",
    quiet: "{count} 个空闲的控制器未显示：{names}。",
    sampling: "页面按采样显示：每秒四次快照，每个队列前 {keys} 个键，两次快照之间至多 {results} 次调谐。计数是完整的。",
    resource: "资源", key: "命名空间/名称", open: "打开", close: "关闭", theme: "深色或浅色",
    versions: "版本", reconcilesOf: "调谐", events: "事件", tree: "属主树", yaml: "YAML",
    gone: "该对象已不存在。", noVersions: "服务器日志中没有它的版本。",
    noReconciles: "没有看到此键的调谐。", noEvents: "没有事件。", noTree: "它不拥有对象，也不被拥有。",
    by: "由", because: "原因", attempt: "第几次", requeue: "再次于", created: "创建", updated: "更新", deleted: "删除",
    apply: "应用 YAML", applyEdit: "应用修改", remove: "删除", scale: "扩缩", cordon: "封锁", uncordon: "解除封锁",
    replicas: "副本数", sure: "删除 {key}？", keysOf: "键", manifest: "清单",
    pause: "暂停", resume: "继续", paused: "已暂停", fail: "使失败",
    recorded: "录制", timeline: "时间线", step: "单步", first: "第一步 (Home)", back: "后退一步 (←)",
    on: "前进一步 (→)", last: "最后一步 (End)", nextFailure: "下一次失败的调谐", happened: "发生的事情",
    recordedNote: "这是一份录制：缓存与调谐是这一步时的状态。队列由之后调谐的原因推出。",
    "entry-applied": "缓存", "entry-began": "开始", "entry-write": "写", "entry-read": "读",
    "entry-response": "应答", "entry-ended": "结束", showReconcile: "查看第 {number} 次调谐", noAnswer: "没有应答",
    body: "请求体", response: "应答", reconcileNumber: "第 {number} 次调谐", goToStart: "跳到开始",
    duration: "耗时", unfinished: "未结束", cachesRead: "读取的缓存", clockRead: "读取的时钟",
    randomDrawn: "随机数", requests: "请求", noRequests: "没有发送请求。",
  },
};

let language = localStorage.getItem("kubewright-language")
  ?? (navigator.language.startsWith("zh") ? "zh" : "en");

export const currentLanguage = () => language;

export function switchLanguage() {
  language = language === "en" ? "zh" : "en";
  localStorage.setItem("kubewright-language", language);
}

// The word of the current language, with `{name}` replaced by the value of that name.
export function word(name, values = {}) {
  const text = WORDS[language][name] ?? name;
  return text.replace(/\{(\w+)\}/g, (_, key) => values[key] ?? "");
}

export const sameKeys = () =>
  JSON.stringify(Object.keys(WORDS.en).sort()) === JSON.stringify(Object.keys(WORDS.zh).sort());
