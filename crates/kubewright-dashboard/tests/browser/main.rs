//! The page in a real Chromium, driven by chromedriver (Debian packages `chromium` and
//! `chromium-driver`). Skipped loudly where they are missing.

mod driver;
mod picture;
mod recording;

use kubewright_api::apps::v1::Deployment;
use kubewright_apiserver::ApiServer;
use kubewright_client::Api;
use kubewright_controllers::{ControllerSet, NodeOptions};
use kubewright_core::DynamicObject;
use kubewright_dashboard::{Dashboard, ObservedReconcile};

use driver::Browser;

const DEPLOYMENT: &str = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"},
    "spec":{"replicas":1,"selector":{"matchLabels":{"app":"web"}},
    "template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}"#;

#[tokio::test(flavor = "multi_thread")]
async fn the_page_shows_a_roll_out_and_its_actions_work() {
    let Some(browser) = Browser::start().await else { return };
    let server = ApiServer::in_memory().start().await.expect("it starts");
    let client = server.client();
    let controllers = ControllerSet::new(&client).nodes(NodeOptions::default().count(1)).start();
    let context = controllers.context().clone();
    let (activity, mut finished) = (context.activity().clone(), context.activity().observe());
    let dashboard = Dashboard::new(&client)
        .informers(context.factory())
        .queues(move |limit| activity.queues(limit).into_iter().map(|(name, view)| (name.to_owned(), view)).collect())
        .allow_actions();
    let reconciles = dashboard.reconciles();
    tokio::spawn(async move {
        while let Some(ended) = finished.recv().await {
            let mut reconcile = ObservedReconcile::now(ended.controller, ended.key, ended.elapsed);
            reconcile.error = ended.error;
            reconciles.send(reconcile);
        }
    });
    let dashboard = dashboard.start().await.expect("a free port");

    browser.resize(1280, 720).await;
    browser.open(dashboard.url()).await;
    browser.until("the page is live", "document.getElementById('status').dataset.status === 'live'").await;
    assert_eq!(browser.script("return location.search").await, "", "the token has left the address bar");
    let deployments = Api::<DynamicObject>::new(
        &client,
        kubewright_core::GroupVersionResource::new("apps", "v1", "deployments"),
        kubewright_client::Scope::Namespace("default".into()),
    );
    let deployment: DynamicObject = DEPLOYMENT.parse().expect("an object");
    deployments.create(&deployment).await.expect("it is created");
    browser.until("the lane of the controller", "document.querySelector('[data-controller=deployment]')").await;
    browser
        .until("the informer of pods", "[...document.querySelectorAll('[data-informer=pods] td')].some((cell) => cell.textContent.startsWith('1 '))")
        .await;
    browser.screenshot("pipeline").await;

    // A controller, an object of it, and its relatives.
    browser.click("[data-controller=deployment] .name").await;
    browser.until("a reconcile", "document.querySelector('#detail .reconciles .link')").await;
    browser.click("#detail .reconciles .link").await;
    browser.until("the owner tree", "document.querySelectorAll('#detail .tree li').length >= 3").await;
    let tree = browser.script("return document.querySelector('#detail .tree').innerText").await;
    let tree = tree.as_str().expect("text");
    assert!(tree.contains("Deployment default/web") && tree.contains("ReplicaSet") && tree.contains("Pod"), "{tree}");
    browser.screenshot("object").await;

    // An action has its effect.
    browser.script("document.getElementById('replicas').value = '3'").await;
    browser.click("#detail .actions span button").await;
    browser.until("the answer", "document.querySelector('#detail .message').textContent.includes('3 replicas')").await;
    let web = Api::<Deployment>::namespaced(&client, "default").get("web").await.expect("it is there");
    assert_eq!(web.spec.as_ref().and_then(|spec| spec.replicas), Some(3));
    browser.until("three pods", "[...document.querySelectorAll('[data-informer=pods] td')].some((cell) => cell.textContent.startsWith('3 '))").await;

    // The keyboard closes the detail and reaches the search.
    browser.script("document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}))").await;
    browser.until("the detail is closed", "document.getElementById('detail').hidden").await;
    browser.script("document.dispatchEvent(new KeyboardEvent('keydown', {key: '/'}))").await;
    browser.until("the search has the focus", "document.activeElement.id === 'search-resource'").await;
    browser.type_into("#search-resource", "nodes").await;
    browser.type_into("#search-key", "node-0").await;
    browser.click("#search-button").await;
    browser.until("an object or a reason", "document.querySelector('#detail-body').innerText.length > 10").await;
    browser.script("document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}))").await;

    // Languages have the same words; dark and narrow pages need no sideways scrolling.
    let has_same_words = "return import('./words.js').then((words) => words.sameKeys())";
    assert_eq!(browser.script(has_same_words).await, true);
    browser.click("#language").await;
    browser.until("Chinese", "document.documentElement.lang === 'zh'").await;
    browser.click("#theme").await;
    for (width, height, name) in [(1280, 720, "chinese"), (500, 800, "phone")] {
        browser.resize(width, height).await;
        let overflow = "return document.documentElement.scrollWidth - document.documentElement.clientWidth";
        assert_eq!(browser.script(overflow).await, 0, "{name}");
        browser.screenshot(name).await;
    }
    let errors = browser.console_errors().await;
    // A search for a node that does not exist is answered with 404, which the console reports.
    let errors: Vec<_> = errors.iter().filter(|error| !error.contains("api/object")).collect();
    assert!(errors.is_empty(), "{errors:?}");
    dashboard.stop().await;
    controllers.stop().await.expect("they stop");
}
