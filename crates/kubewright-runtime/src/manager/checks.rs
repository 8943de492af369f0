//! Health and readiness checks.

use std::collections::BTreeMap;
use std::fmt;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};

use kubewright_core::Str;

use crate::controller::{ControllerHandle, LeadershipNeed};

/// A check: `Ok`, or the problem.
pub type Check = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

/// All checks of a process. Each controller has a readiness check.
#[derive(Default)]
pub struct Checks {
    health: BTreeMap<Str, Check>,
    readiness: BTreeMap<Str, Check>,
    controllers: Vec<(ControllerHandle, LeadershipNeed)>,
    /// Set while another process leads: idle controllers are then ready.
    pub(super) is_standing_by: AtomicBool,
}

impl Checks {
    /// Adds a liveness check; if it fails, the process should be restarted.
    pub fn health(&mut self, name: impl Into<Str>, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        self.health.insert(name.into(), Box::new(check));
    }

    /// Adds a readiness check.
    pub fn readiness(&mut self, name: impl Into<Str>, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) {
        self.readiness.insert(name.into(), Box::new(check));
    }

    #[inline]
    pub(super) fn watch(&mut self, controller: ControllerHandle, leadership: LeadershipNeed) {
        self.controllers.push((controller, leadership));
    }

    /// Whether the process is alive, with the result of each check; with `name`, of that check
    /// only.
    #[inline]
    pub fn healthz(&self, name: &str) -> Option<(bool, String)> {
        let ping = (Str::from_static("ping"), Ok(()));
        let all = std::iter::once(ping).chain(self.health.iter().map(|(name, check)| (name.clone(), check())));
        report(all, name)
    }

    /// Whether the process is ready, with the result of each check; with `name`, of that check
    /// only.
    #[inline]
    pub fn readyz(&self, name: &str) -> Option<(bool, String)> {
        let own = self.readiness.iter().map(|(name, check)| (name.clone(), check()));
        let of_one = |(controller, leadership): &(ControllerHandle, LeadershipNeed)| {
            (Str::from(controller.name()), self.is_ready(controller, *leadership))
        };
        let controllers = self.controllers.iter().map(of_one);
        report(own.chain(controllers), name)
    }

    #[inline]
    fn is_ready(&self, controller: &ControllerHandle, leadership: LeadershipNeed) -> Result<(), String> {
        let health = controller.health();
        let may_be_idle = leadership != LeadershipNeed::Nothing && self.is_standing_by.load(Ordering::Acquire);
        if health.is_ready() || may_be_idle {
            return Ok(());
        }
        let unsynced: Vec<&str> =
            health.relations.iter().filter(|relation| !relation.has_synced).map(|relation| &*relation.name).collect();
        Err(if unsynced.is_empty() { "not working".to_owned() } else { format!("not synced: {}", unsynced.join(", ")) })
    }
}

/// The format of kube-apiserver's `/readyz?verbose`.
fn report(checks: impl Iterator<Item = (Str, Result<(), String>)>, wanted: &str) -> Option<(bool, String)> {
    let (mut is_fine, mut text, mut is_any) = (true, String::new(), wanted.is_empty());
    for (name, result) in checks.filter(|(name, _)| wanted.is_empty() || name == wanted) {
        is_any = true;
        let written = match result {
            Ok(()) => writeln!(text, "[+]{name} ok"),
            Err(why) => {
                is_fine = false;
                writeln!(text, "[-]{name} failed: {why}")
            }
        };
        written.expect("a string takes all text");
    }
    is_any.then_some((is_fine, text))
}

impl fmt::Debug for Checks {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.health.keys().chain(self.readiness.keys());
        f.debug_struct("Checks").field("names", &names.collect::<Vec<_>>()).finish_non_exhaustive()
    }
}
