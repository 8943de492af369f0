//! Compares a streaming list with a plain one, for those who look for faults in servers.

use kubewright_client::Error;
use kubewright_core::options::{ListOptions, ResourceVersionMatch};
use kubewright_core::{ObjectKey, ResourceVersion};

use super::ReflectorError;
use super::intake::{Heard, Intake, Purpose, Versions};
use super::rounds::Shared;

impl Shared {
    /// Lists at exactly `version`, and tells if that gives other objects than were streamed.
    pub(super) async fn verify(&self, streamed: &mut dyn Intake, version: &ResourceVersion) {
        let listed = match self.versions_at(version).await {
            Ok(listed) => listed,
            Err(error) => {
                tracing::debug!(reflector = %self.choices.name, %error, "cannot verify a streaming list");
                return;
            }
        };
        if let Some(key) = different(streamed.versions(), listed) {
            self.tell(ReflectorError::Inconsistent { key, version: version.clone() });
        }
    }

    async fn versions_at(&self, version: &ResourceVersion) -> Result<Versions, Error> {
        let options = ListOptions::default()
            .resource_version(version.as_str())
            .resource_version_match(ResourceVersionMatch::Exact);
        let patience = self.choices.patience_or_default();
        let mut intake = self.subject.intake(Purpose::Compare);
        intake.list(options);
        intake.opened().await?;
        loop {
            match intake.next_within(patience).await {
                Heard::Listed(_) | Heard::Closed => return Ok(intake.versions()),
                Heard::Failed(error) => return Err(error),
                _ => {}
            }
        }
    }
}

/// An object that one has and the other has not, or not so.
fn different(mut one: Versions, mut other: Versions) -> Option<ObjectKey> {
    one.sort_unstable();
    other.sort_unstable();
    let place = one.iter().zip(&other).take_while(|(one, other)| one == other).count();
    let left = [one.get(place), other.get(place)];
    left.into_iter().flatten().min().map(|(key, _)| key.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn versions(pairs: &[(&str, &str)]) -> Versions {
        pairs.iter().map(|(name, version)| (ObjectKey::namespaced("default", *name), (*version).to_owned())).collect()
    }

    #[test]
    fn the_first_difference_is_found_whichever_side_it_is_on() {
        let all = || versions(&[("c", "3"), ("a", "1"), ("b", "2")]);
        assert_eq!(different(all(), versions(&[("a", "1"), ("b", "2"), ("c", "3")])), None);
        assert_eq!(
            different(all(), versions(&[("a", "1"), ("b", "4"), ("c", "3")])),
            Some(ObjectKey::namespaced("default", "b"))
        );
        assert_eq!(different(all(), versions(&[("a", "1"), ("c", "3")])), Some(ObjectKey::namespaced("default", "b")));
        assert_eq!(different(versions(&[("a", "1"), ("b", "2")]), all()), Some(ObjectKey::namespaced("default", "c")));
    }
}
