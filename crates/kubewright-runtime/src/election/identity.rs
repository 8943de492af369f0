//! Who a process is among others.

use crate::random;

/// An identity that no other process has: the name of the host, which in a pod is the pod's, and a random uid.
#[inline]
pub fn unique_identity() -> String {
    format!("{}_{}", host_name(), random::uuid())
}

/// The name of the host, as far as it is known.
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
