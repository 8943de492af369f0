//! A recording in the page: the time line, its steps and its pictures.

use std::path::Path;

use kubewright_dashboard::RecordingDashboard;
use kubewright_recording::{Entry, Recording};

use crate::driver::Browser;
use crate::picture::{TOLERANCE, difference, looks_like};

/// The recording of the book's chapter.
fn bad_run() -> Recording {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/replay/bad-run.kwrec");
    Recording::open(file).expect("a recording")
}

/// The first step at which the page shows this text as the current entry.
async fn step_to(browser: &Browser, text: &str) {
    browser.key("Home").await;
    browser.until("the first step", "document.body.dataset.step === '0'").await;
    for step in 1..200 {
        browser.key("ArrowRight").await;
        browser.until("the next step", &format!("document.body.dataset.step === '{step}'")).await;
        let current = browser.script("return document.querySelector('[aria-current=step]').textContent").await;
        if current.as_str().is_some_and(|current| current.contains(text)) {
            return;
        }
    }
    panic!("no step shows {text:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_recording_is_stepped_forwards_and_backwards() {
    let Some(browser) = Browser::start().await else { return };
    let recording = bad_run();
    let writes =
        recording.entries().iter().filter(|entry| matches!(entry, Entry::Request(request) if request.is_write()));
    assert_eq!(writes.count(), 2);
    let dashboard = RecordingDashboard::new(recording).start().await.expect("a free port");
    browser.view(1280, 720).await;
    browser.open(dashboard.url()).await;
    browser.script("localStorage.setItem('kubewright-theme', 'light')").await;
    browser.open(dashboard.url()).await;
    browser.until("the recording", "document.getElementById('status').dataset.status === 'recorded'").await;
    assert_eq!(browser.script("return location.search").await, "", "the token has left the address bar");

    // The first write: the cache has no backup, and the key is processed.
    step_to(&browser, "POST").await;
    let processed = "document.querySelectorAll('[data-controller=backups] .processing .key').length === 1";
    browser.until("the key is processed", processed).await;
    let objects = "return document.querySelector('[data-informer=configmaps] td:nth-child(4)').textContent";
    let before = browser.script(objects).await;
    looks_like(&browser, &browser.shot().await, "replay-first-write").await;

    // The second write, of another reconcile of the same key.
    let first = browser.script("return Number(document.body.dataset.step)").await.as_u64().expect("a number");
    for _ in 0..100 {
        let step = browser.script("return Number(document.body.dataset.step)").await.as_u64().expect("a number");
        browser.key("ArrowRight").await;
        browser.until("the next step", &format!("document.body.dataset.step === '{}'", step + 1)).await;
        let current = browser.script("return document.querySelector('[aria-current=step] b').textContent").await;
        if current == "write" {
            break;
        }
    }
    let second = browser.script("return Number(document.body.dataset.step)").await.as_u64().expect("a number");
    assert!(second > first);
    looks_like(&browser, &browser.shot().await, "replay-second-write").await;

    // The reconcile of the write: the cache that it read, and its request.
    browser.click("#moment-request .link").await;
    browser.until("the reconcile", "document.querySelector('#detail-body dl')").await;
    let detail = browser.script("return document.getElementById('detail').innerText").await;
    let detail = detail.as_str().expect("text");
    assert!(
        detail.contains("configmaps @ ") && detail.contains("POST /api/v1/namespaces/default/configmaps"),
        "{detail}"
    );
    looks_like(&browser, &browser.shot().await, "replay-reconcile").await;
    browser.key("Escape").await;
    browser.until("the detail is closed", "document.getElementById('detail').hidden").await;

    // Backwards, by the button and by the range.
    browser.click("#timeline-back").await;
    browser.until("one step back", &format!("document.body.dataset.step === '{}'", second - 1)).await;
    let script = format!(
        "const range = document.getElementById('timeline-range'); range.value = '{first}'; \
         range.dispatchEvent(new Event('input'))"
    );
    browser.script(&script).await;
    browser.until("the first write", &format!("document.body.dataset.step === '{first}'")).await;
    assert_eq!(browser.script(objects).await, before);

    // An entry of the list leads to its step, and a search to an object.
    browser.click("#entries li:first-child button").await;
    browser.until("another step", &format!("Number(document.body.dataset.step) < {first}")).await;
    browser.click("#timeline-last").await;
    browser.type_into("#search-resource", "configmaps").await;
    let key = browser.script("return document.querySelector('.entry.began').textContent.split(' ').pop()").await;
    browser.type_into("#search-key", key.as_str().expect("a key")).await;
    browser.click("#search-button").await;
    browser.until("the versions", "document.querySelector('#detail-body .differences')").await;
    browser.key("Escape").await;

    // Chinese, dark, and as narrow as a phone.
    browser.script("document.activeElement.blur()").await;
    step_to(&browser, "POST").await;
    browser.click("#language").await;
    browser.click("#theme").await;
    browser
        .until(
            "Chinese",
            "document.documentElement.lang === 'zh' && document.querySelector('.entry b').textContent !== 'write'",
        )
        .await;
    for (width, height, name) in [(1280, 720, "replay-chinese-dark"), (412, 915, "replay-phone")] {
        browser.view(width, height).await;
        let overflow = "return document.documentElement.scrollWidth - document.documentElement.clientWidth";
        assert_eq!(browser.script(overflow).await, 0, "{name}");
        browser.script("window.scrollTo(0, 0)").await;
        looks_like(&browser, &browser.shot().await, name).await;
    }
    assert_eq!(browser.console_errors().await, Vec::<String>::new());

    // The comparison finds a page without its style, and one without its entries.
    browser.script("document.getElementById('main').remove()").await;
    let empty = difference(&browser, &browser.shot().await, "replay-phone").await;
    browser.script("document.querySelector('link[rel=stylesheet]').remove()").await;
    let unstyled = difference(&browser, &browser.shot().await, "replay-phone").await;
    assert!(empty > 2.0 * TOLERANCE && unstyled > 2.0 * TOLERANCE, "{empty} {unstyled}");
    dashboard.stop().await;
}
