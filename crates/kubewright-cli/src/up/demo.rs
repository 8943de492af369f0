//! `up --demo`: demonstrates a control plane, as observed through caches.
//!
//! Every observation comes from the caches of the controllers: single pods while there are few,
//! counts while there are many.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use kubewright_api::apps::v1::{Deployment, DeploymentSpec, ReplicaSet, ReplicaSetSpec};
use kubewright_api::core::v1::{Container, Namespace, Pod, PodSpec, PodTemplateSpec};
use kubewright_cache::{Event, HandlerRegistration, InformerHandle, InformerStopped};
use kubewright_client::Api;
use kubewright_controllers::ControllerContext;
use kubewright_core::meta::v1::LabelSelector;
use kubewright_core::options::{DeleteOptions, Patch};
use kubewright_core::{Map, Object, Selector, Str, json};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::story::Story;

const NAMESPACE: &str = "demo";
/// Timeout of a step; generous for a loaded machine.
const STEP_TIMEOUT: Duration = Duration::from_secs(120);

/// Runs the demo.
pub async fn play(context: &ControllerContext, story: &Story) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let mut stage = DemoObjects::set(context, story).await?;

    story.step("A ReplicaSet that wants one pod").await;
    story.tell("Only the object is written. Its controller hears of it by an informer, and finds one pod too few.");
    stage.sets.create(&replica_set()).await?;
    stage.until("hello", |stage| stage.ready("hello") == 1 && stage.status("hello") == Some((1, 1))).await?;

    story.step("The ReplicaSet from 1 to 2").await;
    story.tell("spec.replicas is set to 2, and nothing else. The loop compares again: 2 wanted, 1 there.");
    stage.scale("hello", 2).await?;
    stage.until("hello", |stage| stage.ready("hello") == 2 && stage.status("hello") == Some((2, 2))).await?;

    story.step("A pod is deleted").await;
    let victim = stage.pods_of("hello").first().map(|pod| pod.name().to_owned()).ok_or("there is no pod")?;
    story.tell(format!(
        "kubectl delete pod {victim}: no command for the controller; it sees the deletion in its cache."
    ));
    stage.api::<Pod>().delete_with(&victim, &DeleteOptions::default()).await?;
    let is_back = |stage: &DemoObjects| {
        stage.ready("hello") == 2 && stage.pods_of("hello").iter().all(|pod| pod.name() != victim)
    };
    stage.until("hello", is_back).await?;

    story.step("A Deployment of 8").await;
    story.tell("A Deployment makes no pods. It makes a ReplicaSet for its template, and that makes the pods.");
    stage.deployments.create(&deployment("nginx:1.27")).await?;
    stage.until("web", |stage| stage.has_rolled_out("nginx:1.27")).await?;

    story.step("The Deployment rolls to another version").await;
    story.tell("Surge and unavailability are 25%: never more than 10 pods, never fewer than 6 available.");
    let image = r#"{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"nginx:1.28"}]}}}}"#;
    stage.deployments.patch("web", Patch::Strategic(image.into())).await?;
    stage.until("web", |stage| stage.has_rolled_out("nginx:1.28")).await?;

    story.step("That was all").await;
    let sets = stage.sets_of_web().len();
    story.tell(format!(
        "{sets} ReplicaSets are kept, so that `kubectl rollout undo deployment web -n demo` can go back."
    ));
    story.tell("The cluster stays up; Ctrl-C stops it.");
    stage.leave();
    Ok(())
}

/// The objects of the demo, and their events.
struct DemoObjects {
    story: Story,
    sets: Api<ReplicaSet>,
    deployments: Api<Deployment>,
    seen_pods: InformerHandle<Pod>,
    seen_sets: InformerHandle<ReplicaSet>,
    seen_deployments: InformerHandle<Deployment>,
    changes: mpsc::UnboundedReceiver<Option<PodChange>>,
    handlers: Vec<HandlerRegistration>,
    state_of: HashMap<Str, &'static str>,
    last_counts: String,
}

/// An observed pod change.
struct PodChange {
    pod: Arc<Pod>,
    is_gone: bool,
}

impl DemoObjects {
    /// Removes objects of an earlier demo, and starts to observe.
    async fn set(context: &ControllerContext, story: &Story) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        let (client, factory) = (context.client(), context.factory());
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(NAMESPACE.into());
        match Api::<Namespace>::all(client).create(&namespace).await {
            Err(error) if !error.is_already_exists() => return Err(error.into()),
            _ => {}
        }
        let (sender, changes) = mpsc::unbounded_channel();
        let (seen_pods, seen_sets) = (factory.informer::<Pod>(), factory.informer::<ReplicaSet>());
        let seen_deployments = factory.informer::<Deployment>();
        let handlers = vec![
            seen_pods.add_handler({
                let sender = sender.clone();
                move |event: &Event<Pod>| {
                    if let Some(pod) = event.object().filter(|pod| pod.namespace() == NAMESPACE) {
                        let is_gone = matches!(event, Event::Deleted(_));
                        let _ = sender.send(Some(PodChange { pod: pod.clone(), is_gone }));
                    }
                }
            })?,
            wake(&seen_sets, sender.clone())?,
            wake(&seen_deployments, sender)?,
        ];
        let mut stage = DemoObjects {
            story: story.clone(),
            sets: Api::namespaced(client, NAMESPACE),
            deployments: Api::namespaced(client, NAMESPACE),
            seen_pods,
            seen_sets,
            seen_deployments,
            changes,
            handlers,
            state_of: HashMap::new(),
            last_counts: String::new(),
        };
        for handler in &stage.handlers {
            handler.synced().await;
        }
        let former = [stage.sets.delete("hello").await.map(drop), stage.deployments.delete("web").await.map(drop)];
        if let Some(error) = former.into_iter().filter_map(Result::err).find(|error| !error.is_not_found()) {
            return Err(error.into());
        }
        stage.until("", |stage| stage.pods_of("hello").is_empty() && stage.pods_of("web").is_empty()).await?;
        Ok(stage)
    }

    fn api<T: kubewright_core::Kind<Scope = kubewright_core::Namespaced>>(&self) -> Api<T> {
        Api::namespaced(self.sets.client(), NAMESPACE)
    }

    async fn scale(&self, name: &str, replicas: i32) -> kubewright_client::Result<()> {
        self.sets.patch(name, Patch::merge(json!({"spec": {"replicas": replicas}}))).await.map(drop)
    }

    /// Reports observations of pods of `app`, until the condition holds.
    async fn until(&mut self, app: &str, holds: impl Fn(&DemoObjects) -> bool) -> Result<(), String> {
        let waiting = async {
            loop {
                if holds(self) {
                    return;
                }
                match self.changes.recv().await {
                    Some(Some(change)) => self.hear(app, &change),
                    Some(None) => {}
                    None => return,
                }
                if app == "web" {
                    self.count();
                }
            }
        };
        timeout(STEP_TIMEOUT, waiting)
            .await
            .map_err(|_| format!("{app} did not get there in {} s", STEP_TIMEOUT.as_secs()))
    }

    /// Reports a pod, if there are few and its state is new.
    fn hear(&mut self, app: &str, change: &PodChange) {
        let pod = &*change.pod;
        if app != "hello" || pod.labels().get("app") != Some(app) {
            return;
        }
        let state = if change.is_gone { "gone" } else { state_of(pod) };
        if self.state_of.insert(pod.uid().into(), state) == Some(state) {
            return;
        }
        let name = pod.name();
        self.story.seen(match state {
            "created" => {
                let owner = pod.owner_references().first().map(|owner| format!("{} {}", owner.kind, owner.name));
                format!("pod {name} is created; its owner is {}", owner.unwrap_or_else(|| "nobody".into()))
            }
            "scheduled" => {
                let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
                format!("pod {name} is given to {node}")
            }
            state => format!("pod {name} is {state}"),
        });
    }

    /// Reports the progress of a rollout, if it changed.
    fn count(&mut self) {
        let mut sets = self.sets_of_web();
        sets.sort_by_key(|(image, _)| image.clone());
        let sizes: Vec<String> = sets.iter().map(|(image, size)| format!("{image}: {size} pods")).collect();
        let available = self.ready("web");
        let counts = format!("{}; {available} of 8 available", sizes.join(", "));
        if !sizes.is_empty() && counts != self.last_counts {
            self.story.seen(counts.clone());
            self.last_counts = counts;
        }
    }

    fn deployment(&self) -> Option<Arc<Deployment>> {
        self.seen_deployments.lister().namespace(NAMESPACE).get("web")
    }

    /// Images and desired sizes of the deployment's sets, to which the rollout limits apply. Their
    /// statuses are written one by one and may add up to anything in between.
    fn sets_of_web(&self) -> Vec<(String, i32)> {
        let sets = self.seen_sets.lister().namespace(NAMESPACE).list(&Selector::everything());
        let of_web = sets.into_iter().filter(|set| set.labels().get("app") == Some("web"));
        of_web
            .filter_map(|set| {
                let spec = set.spec.as_ref()?;
                Some((image_of(spec.template.as_deref()?)?, spec.replicas?))
            })
            .collect()
    }

    fn pods_of(&self, app: &str) -> Vec<Arc<Pod>> {
        let mut pods = self.seen_pods.lister().namespace(NAMESPACE).list(&Selector::everything());
        pods.retain(|pod| pod.labels().get("app") == Some(app));
        pods
    }

    fn ready(&self, app: &str) -> usize {
        self.pods_of(app).iter().filter(|pod| state_of(pod) == "ready").count()
    }

    /// The replicas and ready replicas of a set.
    fn status(&self, set: &str) -> Option<(i32, i32)> {
        let set = self.seen_sets.lister().namespace(NAMESPACE).get(set)?;
        set.status.as_ref().map(|status| (status.replicas, status.ready_replicas.unwrap_or_default()))
    }

    fn has_rolled_out(&self, image: &str) -> bool {
        let Some(deployment) = self.deployment() else { return false };
        let (Some(spec), Some(status)) = (&deployment.spec, &deployment.status) else { return false };
        image_of(&spec.template).as_deref() == Some(image)
            && status.observed_generation == deployment.generation()
            && [status.replicas, status.updated_replicas, status.available_replicas] == [Some(8); 3]
    }

    /// Stops observing.
    fn leave(self) {
        self.handlers.iter().for_each(HandlerRegistration::remove);
    }
}

/// Wakes the demo when an object changes.
fn wake<T: Object>(
    informer: &InformerHandle<T>,
    sender: mpsc::UnboundedSender<Option<PodChange>>,
) -> Result<HandlerRegistration, InformerStopped> {
    informer.add_handler(move |_: &Event<T>| drop(sender.send(None)))
}

/// The reported state of a pod.
fn state_of(pod: &Pod) -> &'static str {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter());
    let is_ready = conditions.clone().any(|condition| condition.type_ == "Ready" && condition.status == "True");
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let has_node = pod.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    match (phase, has_node) {
        _ if pod.is_being_deleted() => "stopping",
        _ if is_ready => "ready",
        (Some("Running"), _) => "running",
        (_, true) => "scheduled",
        _ => "created",
    }
}

fn image_of(template: &PodTemplateSpec) -> Option<String> {
    template.spec.as_ref()?.containers.first()?.image.as_ref().map(ToString::to_string)
}

fn template(app: &str, image: &str) -> PodTemplateSpec {
    let container = Container { name: app.into(), image: Some(image.into()), ..Default::default() };
    let mut template = PodTemplateSpec::default();
    template.metadata.labels = Map::from([("app", Str::from(app))]);
    template.spec = Some(PodSpec { containers: [container].into(), ..Default::default() });
    template
}

fn selector(app: &str) -> LabelSelector {
    LabelSelector { match_labels: Map::from([("app", Str::from(app))]), ..Default::default() }
}

fn replica_set() -> ReplicaSet {
    let mut set = ReplicaSet::default();
    set.metadata.name = Some("hello".into());
    set.spec = Some(ReplicaSetSpec {
        replicas: Some(1),
        selector: selector("hello"),
        template: Some(template("hello", "hello:1").into()),
        ..Default::default()
    });
    set
}

fn deployment(image: &str) -> Deployment {
    let mut deployment = Deployment::default();
    deployment.metadata.name = Some("web".into());
    deployment.spec = Some(DeploymentSpec {
        replicas: Some(8),
        selector: selector("web"),
        template: template("web", image),
        ..Default::default()
    });
    deployment
}
