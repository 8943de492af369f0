//! In-process micro-benchmarks of kube-rs's store, scheduler and Controller; one JSON line per
//! result.
use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::{Pod, PodSpec};
use kube::runtime::{
    Controller,
    controller::{Action, Config},
    reflector::{self, ObjectRef, Store, store::Writer},
    scheduler::{ScheduleRequest, scheduler},
    watcher::Event,
};
use std::{
    collections::HashMap,
    hint::black_box,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::{Duration, Instant},
};

fn cpu() -> f64 {
    let mut u: libc::rusage = unsafe { std::mem::zeroed() };
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &mut u) };
    let s = |t: libc::timeval| t.tv_sec as f64 + t.tv_usec as f64 / 1e6;
    s(u.ru_utime) + s(u.ru_stime)
}

fn report(bench: &str, ops: u64, wall: f64, cpu: f64, extra: serde_json::Value) {
    let mut o = serde_json::json!({"peer": "kube-rs", "bench": bench, "ops": ops, "wall_s": wall, "cpu_s": cpu,
        "ops_per_s": ops as f64 / wall, "cpu_ns_per_op": cpu * 1e9 / ops as f64});
    if let Some(e) = extra.as_object() {
        e.iter().for_each(|(k, v)| o[k] = v.clone());
    }
    println!("{o}");
}

fn key(i: u64) -> String {
    format!("payments-{:03}/payments-api-{}-7d9c5b6f4d-x{:05x}", i % 200, i / 10, i)
}

fn pod(i: u64) -> Pod {
    let mut p = Pod::default();
    p.metadata.namespace = Some(format!("payments-{:03}", i % 200));
    p.metadata.name = Some(format!("payments-api-{}-7d9c5b6f4d-x{:05x}", i / 10, i));
    p.metadata.resource_version = Some(i.to_string());
    p.spec = Some(PodSpec { node_name: Some(format!("node-{}", i % 500)), ..Default::default() });
    p
}

fn filled(n: u64) -> (Store<Pod>, Writer<Pod>) {
    let (r, mut w) = reflector::store::<Pod>();
    w.apply_watcher_event(&Event::Init);
    for i in 0..n {
        w.apply_watcher_event(&Event::InitApply(pod(i)));
    }
    w.apply_watcher_event(&Event::InitDone);
    (r, w)
}

fn store_bench(n: u64) {
    let (r, w) = filled(n);
    let refs: Vec<ObjectRef<Pod>> =
        (0..1u64 << 16).map(|i| ObjectRef::from_obj(&pod(i.wrapping_mul(2_654_435_761) % n))).collect();
    let mut w = Some(w);
    for upd in [false, true] {
        let (stop, ups) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let sfx = if upd { "_with_updater" } else { "" };
        let th = upd.then(|| {
            let (stop, ups, mut w) = (stop.clone(), ups.clone(), w.take().unwrap());
            let evs: Vec<_> = (0..n).map(|i| Event::Apply(pod(i * 7919 % n))).collect();
            std::thread::spawn(move || {
                let mut i = 0;
                while !stop.load(Relaxed) {
                    w.apply_watcher_event(&evs[i % evs.len()]);
                    ups.fetch_add(1, Relaxed);
                    i += 1;
                }
                w
            })
        });
        if upd {
            while ups.load(Relaxed) == 0 {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        let bench = |name: &str, ops: u64, f: &mut dyn FnMut(u64)| {
            let (u0, t, c0) = (ups.load(Relaxed), Instant::now(), cpu());
            (0..ops).for_each(|i| f(i));
            let wall = t.elapsed().as_secs_f64();
            report(
                &format!("{name}{sfx}"),
                ops,
                wall,
                cpu() - c0,
                serde_json::json!({"ns_per_op": wall * 1e9 / ops as f64, "updates_per_s": (ups.load(Relaxed) - u0) as f64 / wall}),
            );
        };
        bench("store_get", 2_000_000, &mut |i| {
            black_box(r.get(&refs[i as usize & 0xffff]));
        });
        bench("store_get_warm", 2_000_000, &mut |i| {
            black_box(r.get(&refs[i as usize % 1000]));
        });
        // no index in kube-rs: the documented way to the pods of a namespace or node is a filter
        // over everything
        bench("store_filter_ns_500", 50, &mut |i| {
            let ns = format!("payments-{:03}", i % 200);
            black_box(r.state_filter(|p| p.metadata.namespace.as_deref() == Some(&ns)));
        });
        bench("store_list", 50, &mut |_| {
            black_box(r.state());
        });
        stop.store(true, Relaxed);
        if let Some(t) = th {
            w = Some(t.join().unwrap());
        }
    }
    let mut w = w.unwrap();
    let evs: Vec<_> = (0..n).map(|i| Event::Apply(pod(i * 7919 % n))).collect();
    let (t, c0) = (Instant::now(), cpu());
    for i in 0..1_000_000 {
        w.apply_watcher_event(&evs[i % evs.len()]);
    }
    report(
        "store_update_alone",
        1_000_000,
        t.elapsed().as_secs_f64(),
        cpu() - c0,
        serde_json::json!({"note": "includes the clone of a small Pod that apply_watcher_event makes"}),
    );
}

/// `adds` requests over `distinct` keys by `p` producer tasks through the scheduler stream
async fn sched(name: &str, adds: u64, distinct: u64, p: u64) {
    let ks: Arc<Vec<Arc<str>>> = Arc::new((0..distinct).map(|i| key(i).into()).collect());
    let (t, c0) = (Instant::now(), cpu());
    // the scheduler ends with its input and forgets what is still in it, so `tx` stays open here to
    // the end
    let (tx, rx) = futures::channel::mpsc::channel::<ScheduleRequest<Arc<str>>>(1024);
    for w in 0..p {
        let (mut tx, ks) = (tx.clone(), ks.clone());
        tokio::spawn(async move {
            use futures::SinkExt;
            let mut i = w;
            while i < adds {
                let _ = tx
                    .send(ScheduleRequest {
                        message: ks[(i % distinct) as usize].clone(),
                        run_at: tokio::time::Instant::now(),
                    })
                    .await;
                i += p;
            }
            // due after everything else: tells the consumer that this producer's keys are all out
            let end = ScheduleRequest {
                message: format!("end-{w}").into(),
                run_at: tokio::time::Instant::now() + Duration::from_millis(300),
            };
            let _ = tx.send(end).await;
        });
    }
    let mut s = std::pin::pin!(scheduler(rx));
    let (mut got, mut ends, mut last) = (0u64, 0, (t, c0));
    while ends < p {
        let m = s.next().await.unwrap();
        if m.starts_with("end-") {
            ends += 1;
            continue;
        }
        got += 1;
        if got % 1000 == 0 {
            last = (Instant::now(), cpu());
        }
    }
    assert!(distinct < adds || got == adds, "lost {}", adds - got);
    report(name, adds, (last.0 - t).as_secs_f64(), last.1 - c0, serde_json::json!({"delivered": got}));
}

async fn after(n: u64) {
    let (tx, rx) = futures::channel::mpsc::unbounded();
    let (t, c0) = (Instant::now(), cpu());
    let mut due = HashMap::new();
    let mut x = 1u64;
    for i in 0..n {
        x = x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let at = tokio::time::Instant::now() + Duration::from_secs(2) + Duration::from_nanos((x >> 33) % 1_000_000_000);
        let k: Arc<str> = key(i).into();
        due.insert(k.clone(), at);
        tx.unbounded_send(ScheduleRequest { message: k, run_at: at }).unwrap();
    }
    let mut s = std::pin::pin!(scheduler(rx));
    let mut late = Vec::with_capacity(n as usize);
    while late.len() < n as usize {
        let k = s.next().await.unwrap();
        late.push((tokio::time::Instant::now() - due[&k]).as_secs_f64() * 1e3);
    }
    late.sort_by(f64::total_cmp);
    report(
        "queue_add_after_100k",
        n,
        t.elapsed().as_secs_f64(),
        cpu() - c0,
        serde_json::json!({"late_p50_ms": late[late.len() / 2], "late_p99_ms": late[late.len() * 99 / 100]}),
    );
}

async fn controller(name: &str, n: u64, triggers: u64, concurrency: u16) {
    let (r, _w) = filled(n);
    let objs: Vec<Pod> = (0..n).map(pod).collect();
    let done = Arc::new(AtomicU64::new(0));
    let (t, c0) = (Instant::now(), cpu());
    // a stream that yields like a real watch does, so that the scheduler can interleave
    let st = stream::iter((0..triggers).map(move |i| Ok(objs[(i % n) as usize].clone()))).chain(stream::pending());
    let run = Controller::for_stream(st, r).with_config(Config::default().concurrency(concurrency)).run(
        |_p: Arc<Pod>, d: Arc<AtomicU64>| async move {
            d.fetch_add(1, Relaxed);
            Ok::<_, std::io::Error>(Action::await_change())
        },
        |_, _, _| Action::await_change(),
        done.clone(),
    );
    let mut run = std::pin::pin!(run);
    let want = n;
    let mut got = 0;
    while got < want {
        run.next().await.unwrap().unwrap();
        got += 1;
    }
    report(
        name,
        triggers,
        t.elapsed().as_secs_f64(),
        cpu() - c0,
        serde_json::json!({"reconciles": got, "reconciles_per_s": got as f64 / t.elapsed().as_secs_f64()}),
    );
}

fn main() {
    let only = std::env::args().nth(2).unwrap_or_default();
    let on = |s: &str| only.is_empty() || s.contains(&only);
    let rt = || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    if on("queue1") {
        rt().block_on(sched("queue_1p1c_1M_distinct", 1_000_000, 1_000_000, 1));
    }
    if on("queue4") {
        rt().block_on(sched("queue_4p1c_1M_distinct", 1_000_000, 1_000_000, 4));
    }
    if on("hot") {
        rt().block_on(sched("queue_1p1c_1k_hot", 1_000_000, 1000, 1));
    }
    if on("after") {
        rt().block_on(after(100_000));
    }
    if on("store") {
        store_bench(100_000);
    }
    if on("controller") {
        rt().block_on(controller("controller_100k_objects", 100_000, 100_000, 0));
        rt().block_on(controller("controller_100k_objects_c4", 100_000, 100_000, 4));
    }
}
