//! Compares a streaming list with a plain list, to find server bugs.

use kubewright_client::Error;
use kubewright_core::options::{ListOptions, ResourceVersionMatch};
use kubewright_core::{ObjectKey, ResourceVersion};

use super::ReflectorError;
use super::intake::{Intake, ObjectVersions, Purpose, StreamItem};
use super::retry_loop::ReflectorLoop;

impl ReflectorLoop {
    /// Lists at exactly `version`, and reports if the result differs from the streamed objects.
    pub(super) async fn verify(&self, streamed: &mut dyn Intake, version: &ResourceVersion) {
        let listed = match self.versions_at(version).await {
            Ok(listed) => listed,
            Err(error) => {
                tracing::debug!(reflector = %self.common.name, %error, "cannot verify a streaming list");
                return;
            }
        };
        if let Some(key) = different(streamed.versions(), listed) {
            self.tell(ReflectorError::Inconsistent { key, version: version.clone() });
        }
    }

    async fn versions_at(&self, version: &ResourceVersion) -> Result<ObjectVersions, Error> {
        let options = ListOptions::default()
            .resource_version(version.as_str())
            .resource_version_match(ResourceVersionMatch::Exact);
        let response_timeout = self.common.response_timeout_or_default();
        let mut intake = self.pipeline.intake(Purpose::Compare);
        intake.list(options);
        intake.opened().await?;
        loop {
            match intake.next_within(response_timeout).await {
                StreamItem::Listed(_) | StreamItem::Closed => return Ok(intake.versions()),
                StreamItem::Failed(error) => return Err(error),
                _ => {}
            }
        }
    }
}

/// The first object that is missing or different in one of the two.
fn different(mut one: ObjectVersions, mut other: ObjectVersions) -> Option<ObjectKey> {
    one.sort_unstable();
    other.sort_unstable();
    let place = one.iter().zip(&other).take_while(|(one, other)| one == other).count();
    let left = [one.get(place), other.get(place)];
    left.into_iter().flatten().min().map(|(key, _)| key.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn versions(pairs: &[(&str, &str)]) -> ObjectVersions {
        pairs.iter().map(|(name, version)| (ObjectKey::namespaced("default", *name), (*version).to_owned())).collect()
    }

    #[test]
    fn a_difference_on_either_side_is_found() {
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
