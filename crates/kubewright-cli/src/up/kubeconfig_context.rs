//! The context `kubewright` in the user's kubeconfig, as long as the cluster runs.
//!
//! Like kind, `up` makes its cluster the current one, so that kubectl works at once. On exit it
//! removes its entries and selects the former context again. It changes nothing that someone else
//! has changed meanwhile, and never replaces a context of a cluster on another machine.

use std::collections::btree_map::Entry;
use std::error::Error;
use std::path::PathBuf;

use kubewright_apiserver::RunningServer;
use kubewright_client::config::{EnvironmentVariables, Kubeconfig, LoadingRules};

/// The name of the context, the cluster and the user.
pub const NAME: &str = "kubewright";

/// Entries that are removed when this is dropped, also if the cluster fails.
pub struct KubeconfigContext {
    rules: LoadingRules,
    server: String,
    former: Option<String>,
}

impl KubeconfigContext {
    /// Adds the context, and makes it the current one.
    ///
    /// # Errors
    /// If the file cannot be changed, or has a context of this name for another machine.
    pub async fn add(server: &RunningServer) -> Result<Self, Box<dyn Error>> {
        let rules = LoadingRules::from_environment(&EnvironmentVariables::process());
        let own = Kubeconfig::parse(&server.kubeconfig(), None)?;
        let added =
            tokio::task::spawn_blocking(move || add(rules, own).map_err(|error| crate::failure::chain(&*error)));
        Ok(added.await??)
    }

    /// The file with the context.
    pub fn file(&self) -> Option<PathBuf> {
        self.rules.default_file().map(PathBuf::from)
    }
}

impl Drop for KubeconfigContext {
    fn drop(&mut self) {
        let former = self.former.take();
        if let Err(error) = self.rules.edit(|kubeconfig| remove(kubeconfig, &self.server, former)) {
            tracing::warn!("the context {NAME:?} stays in the kubeconfig: {}", crate::failure::chain(&error));
        }
    }
}

fn add(rules: LoadingRules, own: Kubeconfig) -> Result<KubeconfigContext, Box<dyn Error>> {
    let own_context = own.current_context.clone().unwrap_or_default();
    let incomplete = || "the server's kubeconfig is incomplete";
    let mut context = own.contexts.get(&own_context).cloned().ok_or_else(incomplete)?;
    let cluster = own.clusters.values().next().cloned().ok_or_else(incomplete)?;
    let user = own.users.values().next().cloned().ok_or_else(incomplete)?;
    let server = cluster.server.clone().ok_or_else(incomplete)?;
    (context.cluster, context.user) = (Some(NAME.to_owned()), Some(NAME.to_owned()));
    let (mut former, mut refusal) = (None, None);
    rules.edit(|kubeconfig| {
        refusal = foreign_server(kubeconfig);
        if refusal.is_some() {
            return;
        }
        former = kubeconfig.current_context.take().filter(|name| name != NAME);
        // An entry of a process that was killed stays in its file.
        replace(kubeconfig.clusters.entry(NAME.to_owned()), cluster, |new, old| new.origin = old.origin.clone());
        replace(kubeconfig.users.entry(NAME.to_owned()), user, |new, old| new.origin = old.origin.clone());
        replace(kubeconfig.contexts.entry(NAME.to_owned()), context, |new, old| new.origin = old.origin.clone());
        kubeconfig.current_context = Some(NAME.to_owned());
    })?;
    match refusal {
        Some(foreign) => Err(format!("its context {NAME:?} is of {foreign}, which is not on this machine").into()),
        None => Ok(KubeconfigContext { rules, server, former }),
    }
}

fn replace<T>(entry: Entry<'_, String, T>, mut new: T, keep: impl FnOnce(&mut T, &T)) {
    match entry {
        Entry::Vacant(vacant) => drop(vacant.insert(new)),
        Entry::Occupied(mut occupied) => {
            keep(&mut new, occupied.get());
            occupied.insert(new);
        }
    }
}

/// The server of a context or cluster of our name, if it is not a loopback address.
fn foreign_server(kubeconfig: &Kubeconfig) -> Option<String> {
    let of_context = kubeconfig.contexts.get(NAME).map(|context| context.cluster.clone().unwrap_or_default());
    let names = of_context.into_iter().chain([NAME.to_owned()]);
    let mut servers = names.filter_map(|name| kubeconfig.clusters.get(&name)?.server.clone());
    servers.find(|server| !is_loopback(server))
}

fn is_loopback(server: &str) -> bool {
    let Ok(url) = server.parse::<http::Uri>() else { return false };
    let host = url.host().unwrap_or_default().trim_matches(['[', ']']);
    host == "localhost" || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Removes the entries of a server, and selects the former context.
fn remove(kubeconfig: &mut Kubeconfig, server: &str, former: Option<String>) {
    let is_own = kubeconfig.clusters.get(NAME).is_some_and(|cluster| cluster.server.as_deref() == Some(server));
    if !is_own {
        return;
    }
    kubeconfig.clusters.remove(NAME);
    kubeconfig.users.remove(NAME);
    kubeconfig.contexts.remove(NAME);
    if kubeconfig.current_context.as_deref() == Some(NAME) {
        kubeconfig.current_context = former.filter(|name| kubeconfig.contexts.contains_key(name));
    }
}

/// The warning if the context cannot be added. The cluster runs nevertheless.
pub fn advice(error: &dyn Error) -> String {
    format!(
        "the kubeconfig has no context {NAME:?}: {}. Use --write-kubeconfig FILE, or --no-context",
        crate::failure::chain(error)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "{clusters: [{name: a, cluster: {server: 'https://127.0.0.1:1'}}],
        users: [{name: a, user: {token: secret}}], current-context: a,
        contexts: [{name: a, context: {cluster: a, user: a}}]}";

    fn scratch(name: &str, text: &str) -> PathBuf {
        let file = std::env::temp_dir().join(format!("kubewright-context-{name}-{}", std::process::id()));
        std::fs::write(&file, text).expect("the directory is writable");
        file
    }

    fn added(file: &std::path::Path) -> Result<KubeconfigContext, String> {
        let own = Kubeconfig::parse(OWN, None).expect("it is valid");
        add(LoadingRules::explicit(file), own).map_err(|error| error.to_string())
    }

    #[test]
    fn the_context_is_current_until_it_is_removed() {
        let text = "{current-context: work, contexts: [{name: work, context: {cluster: c, user: u}}],
            clusters: [{name: c, cluster: {server: 'https://example.com'}}], users: [{name: u, user: {}}]}";
        let file = scratch("current", text);
        let before = Kubeconfig::read(&file).expect("it is valid");
        let context = added(&file).expect("it is ours to change");
        let with = Kubeconfig::read(&file).expect("it is valid");
        assert_eq!(with.current_context.as_deref(), Some(NAME));
        assert_eq!(with.clusters[NAME].server.as_deref(), Some("https://127.0.0.1:1"));
        drop(context);
        assert_eq!(Kubeconfig::read(&file).expect("it is valid"), before);
        std::fs::remove_file(file).expect("it is ours");
    }

    #[test]
    fn a_context_of_another_machine_is_not_replaced() {
        let text = "{contexts: [{name: kubewright, context: {cluster: c, user: u}}],
            clusters: [{name: c, cluster: {server: 'https://example.com'}}], users: []}";
        let file = scratch("foreign", text);
        let before = Kubeconfig::read(&file).expect("it is valid");
        let refused = added(&file).err().expect("it belongs to someone else");
        assert!(refused.contains("https://example.com"), "{refused}");
        assert_eq!(Kubeconfig::read(&file).expect("it is valid"), before);
        std::fs::remove_file(file).expect("it is ours");
    }

    #[test]
    fn entries_of_another_process_stay() {
        let file = scratch("other", "{clusters: [], contexts: [], users: []}");
        let context = added(&file).expect("it is ours to change");
        let other = |kubeconfig: &mut Kubeconfig| {
            kubeconfig.clusters.get_mut(NAME).expect("added").server = Some("https://127.0.0.1:2".into());
        };
        context.rules.edit(other).expect("writable");
        drop(context);
        let after = Kubeconfig::read(&file).expect("it is valid");
        assert!(after.contexts.contains_key(NAME) && after.current_context.as_deref() == Some(NAME));
        std::fs::remove_file(file).expect("it is ours");
    }
}
