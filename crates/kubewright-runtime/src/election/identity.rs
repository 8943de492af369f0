//! Unique identities of processes.

use crate::random;

/// A unique identity: the host name, which in a pod is the pod name, and a random uid.
#[inline]
pub fn unique_identity() -> String {
    format!("{}_{}", host_name(), random::uuid())
}

/// The host name, if known.
#[inline]
pub(crate) fn host_name() -> String {
    let known = std::fs::read_to_string("/proc/sys/kernel/hostname").or_else(|_| std::env::var("HOSTNAME"));
    let known = known.map(|name| name.trim().to_owned()).unwrap_or_default();
    if known.is_empty() { "localhost".to_owned() } else { known }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_identities_are_the_same() {
        let [first, second] = [unique_identity(), unique_identity()];
        let host = format!("{}_", host_name());
        assert!(first != second && first.starts_with(&host) && second.starts_with(&host), "{first}, {second}");
    }
}
