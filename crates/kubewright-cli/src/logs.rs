//! `kubewright logs`: prints the logs of containers. Arguments and messages follow kubectl.

use std::error::Error;

use clap::Args;
use futures_util::future::try_join_all;
use kubewright_api::core::v1::{Container, Pod};
use kubewright_client::clientset::{LogOptions, LogStream};
use kubewright_client::{Api, Client};
use kubewright_core::options::ListOptions;
use kubewright_core::{Duration, GroupVersion, Object, Selector, Time, Value};

use crate::connection::Connection;
use crate::output::print;

/// The annotation that names the container of which users mostly want the log.
const DEFAULT_CONTAINER: &str = "kubectl.kubernetes.io/default-container";
/// How many lines of each of several logs are printed by default.
const TAIL_OF_MANY: i64 = 10;
/// How many logs are followed at a time.
const FOLLOWED_MAX: usize = 5;

pub const HELP: &str = "\
Examples:
  kubewright logs web-0
  kubewright logs -f deployment/web -c app
  kubewright logs -l app=web --all-containers --prefix";

/// Selection and form of logs.
#[derive(Debug, Args)]
pub struct LogsOptions {
    /// A pod, or TYPE/NAME of an object that has pods, such as `deployment/web`.
    #[arg(value_name = "POD | TYPE/NAME", required_unless_present = "selector", conflicts_with = "selector")]
    name: Option<String>,
    /// The namespace; by default that of the context.
    #[arg(long, short)]
    namespace: Option<String>,
    /// The pods that match this label selector.
    #[arg(long, short = 'l')]
    selector: Option<Selector>,
    /// The container; by default the one that an annotation of the pod names, or the first.
    #[arg(long, short)]
    container: Option<String>,
    /// All containers of the pods.
    #[arg(long, conflicts_with = "container")]
    all_containers: bool,
    /// Follows the logs.
    #[arg(long, short)]
    follow: bool,
    /// The logs of the previous runs of the containers.
    #[arg(long, short)]
    previous: bool,
    /// Starts each line with its time.
    #[arg(long)]
    timestamps: bool,
    /// Starts each line with the pod and the container.
    #[arg(long)]
    prefix: bool,
    /// Only lines that are not older, such as 5s, 2m or 3h.
    #[arg(long, value_name = "TIME", conflicts_with = "since_time")]
    since: Option<Duration>,
    /// Only lines since this time, in RFC 3339.
    #[arg(long)]
    since_time: Option<Time>,
    /// Only so many lines from the end; all by default, and 10 with a selector.
    #[arg(long, value_name = "LINES")]
    tail: Option<i64>,
    /// Only so many bytes of each log.
    #[arg(long, value_name = "BYTES")]
    limit_bytes: Option<i64>,
    #[command(flatten)]
    connection: Connection,
}

/// One log to print.
struct Source {
    pod: String,
    container: String,
}

/// Prints logs.
pub async fn logs(options: &LogsOptions) -> Result<(), Box<dyn Error>> {
    let client = options.connection.client()?;
    let namespace = options.namespace.clone().unwrap_or_else(|| client.default_namespace().to_owned());
    let pods = Api::<Pod>::namespaced(&client, &namespace);
    let mut sources = Vec::new();
    for pod in options.pods(&client, &pods, &namespace).await? {
        sources.extend(options.sources(&pod)?);
    }
    if sources.is_empty() {
        say(&format!("No resources found in {namespace} namespace."));
    }
    if !options.follow {
        for source in &sources {
            options.print(&pods, source).await?;
        }
        return Ok(());
    }
    if sources.len() > FOLLOWED_MAX {
        let count = sources.len();
        return Err(format!("{count} logs would be followed, but at most {FOLLOWED_MAX} can be").into());
    }
    try_join_all(sources.iter().map(|source| options.print(&pods, source))).await?;
    Ok(())
}

impl LogsOptions {
    /// The pods whose logs are wanted.
    async fn pods(&self, client: &Client, pods: &Api<Pod>, namespace: &str) -> Result<Vec<Pod>, Box<dyn Error>> {
        if let Some(selector) = &self.selector {
            let list = ListOptions::default().labels(selector.clone());
            return Ok(pods.list(&list).await?.items);
        }
        let name = self.name.as_deref().unwrap_or_default();
        let Some((resource, name)) = name.split_once('/') else { return Ok(vec![pods.get(name).await?]) };
        if matches!(resource.to_lowercase().as_str(), "pod" | "pods" | "po") {
            return Ok(vec![pods.get(name).await?]);
        }
        let selector = selector_of(client, namespace, resource, name).await?;
        let list = ListOptions::default().labels(selector);
        let mut found = pods.list(&list).await?.items;
        // As kubectl, one pod that is ready if there is one.
        found.sort_by_key(|pod| (!is_ready(pod), pod.name().to_owned()));
        let Some(first) = found.first() else {
            return Err(format!("{resource}/{name} has no pods").into());
        };
        if found.len() > 1 {
            say(&format!("Found {} pods, using pod/{}", found.len(), first.name()));
        }
        found.truncate(1);
        Ok(found)
    }

    /// The containers of a pod whose logs are wanted.
    fn sources(&self, pod: &Pod) -> Result<Vec<Source>, Box<dyn Error>> {
        let source = |container: &str| Source { pod: pod.name().to_owned(), container: container.to_owned() };
        let Some(spec) = &pod.spec else { return Ok(Vec::new()) };
        let names = |containers: &[Container]| containers.iter().map(|one| one.name.to_string()).collect::<Vec<_>>();
        let all = [names(&spec.init_containers), names(&spec.containers)].concat();
        if self.all_containers {
            return Ok(all.iter().map(|name| source(name)).collect());
        }
        if let Some(container) = &self.container {
            if all.contains(container) {
                return Ok(vec![source(container)]);
            }
            return Err(format!("container {container} is not valid for pod {}", pod.name()).into());
        }
        let annotated = pod.annotations().get(DEFAULT_CONTAINER).filter(|name| all.iter().any(|one| one == name));
        if let Some(name) = annotated {
            return Ok(vec![source(name)]);
        }
        let Some(first) = spec.containers.first() else { return Ok(Vec::new()) };
        if all.len() > 1 {
            let inits = names(&spec.init_containers).into_iter().map(|name| format!("{name} (init)"));
            let others: Vec<String> = names(&spec.containers).into_iter().chain(inits).collect();
            say(&format!("Defaulted container {:?} out of: {}", &*first.name, others.join(", ")));
        }
        Ok(vec![source(&first.name)])
    }

    async fn print(&self, pods: &Api<Pod>, source: &Source) -> Result<(), Box<dyn Error>> {
        let mut stream = self.open(pods, source).await?;
        let prefix = if self.prefix { format!("[pod/{}/{}] ", source.pod, source.container) } else { String::new() };
        while let Some(line) = stream.line().await? {
            print(format!("{prefix}{line}\n"))?;
        }
        Ok(())
    }

    async fn open(&self, pods: &Api<Pod>, source: &Source) -> kubewright_client::Result<LogStream> {
        let default_tail = self.selector.is_some().then_some(TAIL_OF_MANY);
        let options = LogOptions {
            container: Some(source.container.as_str().into()),
            follow: self.follow,
            previous: self.previous,
            timestamps: self.timestamps,
            since_seconds: self.since.and_then(|since| std::time::Duration::try_from(since).ok()).map(seconds),
            since_time: self.since_time,
            // A negative number stands for all lines.
            tail_lines: self.tail.or(default_tail).filter(|lines| *lines >= 0),
            limit_bytes: self.limit_bytes,
        };
        pods.log_stream(&source.pod, &options).await
    }
}

/// The selector of an object that has pods.
async fn selector_of(client: &Client, namespace: &str, resource: &str, name: &str) -> Result<Selector, Box<dyn Error>> {
    let mapping = match client.rest_mapper().find(resource).await {
        Ok(mapping) => mapping,
        Err(error) if error.is_not_found() => {
            return Err(format!("the server doesn't have a resource type {resource:?}").into());
        }
        Err(error) => return Err(error.into()),
    };
    let resource = &mapping.resource;
    let version = GroupVersion::new(resource.group.clone(), resource.version.clone());
    let request = client.rest().group_version(version).get().resource(resource.resource.clone());
    let request = if mapping.namespaced { request.namespace(namespace) } else { request };
    let object = Value::from_json(&request.name(name).send().await?.bytes())?;
    let selector = object.get("spec").and_then(|spec| spec.get("selector"));
    let labels = selector.and_then(|selector| selector.get("matchLabels")).or(selector);
    let labels = labels.and_then(Value::as_object).filter(|labels| !labels.is_empty());
    let Some(labels) = labels else {
        return Err(format!("{}/{name} does not select pods", resource.resource).into());
    };
    let labels = labels.iter().map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default()));
    Ok(labels.collect::<Vec<_>>().join(",").parse()?)
}

/// The time in whole seconds, rounded up.
fn seconds(time: std::time::Duration) -> i64 {
    let rest = u64::from(time.subsec_nanos() > 0);
    i64::try_from(time.as_secs() + rest).unwrap_or(i64::MAX)
}

fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

/// Prints a hint on standard error, so that standard output holds logs only.
#[allow(clippy::print_stderr)]
fn say(text: &str) {
    eprintln!("{text}");
}
