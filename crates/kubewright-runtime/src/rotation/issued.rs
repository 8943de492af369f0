//! The stored certificates, and when each is replaced.
//!
//! Everything is renewed when a third of its lifetime remains. Clients must trust a new authority
//! before a server uses a certificate of it. Its certificate is therefore added to the bundle
//! first. The next serving certificate is signed when all owned configurations contain the bundle,
//! and when API servers have had time to see that.

use std::fmt;
use std::time::Duration;

use super::error::RotationError;
use super::pair::ServedPair;
use super::signing::{self, Authority};

/// How long certificates are valid, and how long API servers may take to see a new bundle.
#[derive(Debug, Clone, Copy)]
pub(super) struct Lifetimes {
    pub(super) authority: Duration,
    pub(super) certificate: Duration,
    pub(super) propagation: Duration,
}

/// The certificates of all replicas, in PEM.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct IssuedCertificates {
    /// The certificates of the authorities: the newest first, then older ones that are still valid.
    pub(super) authorities: String,
    /// The key of the newest authority.
    pub(super) authority_key: String,
    pub(super) serving: ServedPair,
}

impl IssuedCertificates {
    /// The first certificates.
    pub(super) fn issue(names: &[String], lifetimes: Lifetimes, now: i64) -> Result<Self, RotationError> {
        let authority = Authority::generate(now, seconds(lifetimes.authority))?;
        let serving = authority.sign(names, now, seconds(lifetimes.certificate))?;
        Ok(IssuedCertificates { authorities: authority.certificate.clone(), authority_key: authority.key(), serving })
    }

    /// The certificates that replace these now; `None` if nothing is due.
    ///
    /// `is_trusted` tells whether all clients have the bundle. Malformed certificates are replaced.
    pub(super) fn renewed(
        &self,
        names: &[String],
        lifetimes: Lifetimes,
        now: i64,
        is_trusted: bool,
    ) -> Result<Option<Self>, RotationError> {
        let mut bundle = certificates_of(&self.authorities);
        bundle.retain(|pem| signing::validity(pem).is_some_and(|validity| validity.not_after > now));
        let newest = bundle.first().and_then(|newest| Authority::read(newest, &self.authority_key));
        let newest = newest.filter(|newest| !newest.validity.is_due(now));
        let is_in_bundle = newest.is_some();
        let authority = match newest {
            Some(newest) => newest,
            None => Authority::generate(now, seconds(lifetimes.authority))?,
        };
        let is_usable = signing::is_accepted(&self.serving, &bundle, names, now);
        if bundle.first() != Some(&&*authority.certificate) {
            bundle.insert(0, &authority.certificate);
        }
        let newest = [&*authority.certificate];
        let is_due = signing::validity(&self.serving.certificate).is_none_or(|validity| validity.is_due(now))
            || !signing::is_accepted(&self.serving, &newest, names, now);
        let is_known =
            is_in_bundle && is_trusted && now - authority.validity.issued() >= seconds(lifetimes.propagation);
        let serving = if is_due && (is_known || !is_usable) {
            authority.sign(names, now, seconds(lifetimes.certificate))?
        } else {
            self.serving.clone()
        };
        let renewed = IssuedCertificates { authorities: bundle.concat(), authority_key: authority.key(), serving };
        let is_same = renewed.authorities == self.authorities && renewed.serving == self.serving;
        Ok((!is_same).then_some(renewed))
    }
}

fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX / 4)
}

/// The certificates of a bundle.
fn certificates_of(bundle: &str) -> Vec<&str> {
    bundle.split_inclusive("-----END CERTIFICATE-----\n").filter(|pem| pem.contains("-----BEGIN")).collect()
}

impl fmt::Debug for IssuedCertificates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IssuedCertificates").field("authorities", &self.authorities).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: i64 = 60 * 60;
    const DAY: i64 = 24 * HOUR;
    const START: i64 = 1_800_000_000;
    const LIFETIMES: Lifetimes = Lifetimes {
        authority: Duration::from_secs(900 * DAY as u64),
        certificate: Duration::from_secs(90 * DAY as u64),
        propagation: Duration::from_secs(600),
    };

    fn names() -> Vec<String> {
        vec!["hooks.ns.svc".to_owned(), "127.0.0.1".to_owned()]
    }

    fn issued() -> IssuedCertificates {
        IssuedCertificates::issue(&names(), LIFETIMES, START).unwrap()
    }

    fn renewed(old: &IssuedCertificates, now: i64, is_trusted: bool) -> Option<IssuedCertificates> {
        old.renewed(&names(), LIFETIMES, now, is_trusted).unwrap()
    }

    /// Whether a client with this bundle accepts what a server with these certificates shows.
    fn accepts(bundle: &IssuedCertificates, served: &IssuedCertificates, now: i64) -> bool {
        signing::is_accepted(&served.serving, &certificates_of(&bundle.authorities), &names(), now)
    }

    #[test]
    fn a_certificate_is_renewed_when_a_third_of_its_lifetime_remains() {
        let first = issued();
        assert!(accepts(&first, &first, START));
        assert_eq!(renewed(&first, START, true), None);
        assert_eq!(renewed(&first, START + 60 * DAY - HOUR, true), None);
        let second = renewed(&first, START + 60 * DAY, true).unwrap();
        assert_eq!(second.authorities, first.authorities);
        assert_ne!(second.serving, first.serving);
        assert!(accepts(&first, &second, START + 149 * DAY));
        assert!(!accepts(&first, &first, START + 91 * DAY));
    }

    #[test]
    fn a_new_authority_is_trusted_before_it_signs() {
        let mut now = START;
        let mut current = issued();
        let mut replaced = 0;
        // For nine years, a check each five days. Clients have the bundle of the previous check.
        while now < START + 9 * 365 * DAY {
            now += 5 * DAY;
            let Some(next) = renewed(&current, now, true) else { continue };
            assert!(accepts(&current, &next, now), "old clients accept the new certificate");
            assert!(accepts(&next, &current, now), "new clients accept the old certificate");
            assert!(certificates_of(&next.authorities).len() <= 2);
            replaced += usize::from(next.authority_key != current.authority_key);
            current = next;
        }
        assert_eq!(replaced, 5);
    }

    #[test]
    fn a_new_authority_does_not_sign_while_a_configuration_lacks_it() {
        let mut current = issued();
        let end = START + 600 * DAY;
        for day in 0..600 {
            current = renewed(&current, START + day * DAY, true).unwrap_or(current);
        }
        let added = renewed(&current, end, true).unwrap();
        assert_eq!(added.serving, current.serving);
        assert_ne!(added.authorities, current.authorities);
        assert_eq!(renewed(&added, end + 599, true), None, "API servers may not have seen it");
        assert_eq!(renewed(&added, end + DAY, false), None, "a configuration lacks it");
        assert!(renewed(&added, end + DAY, true).is_some_and(|next| next.serving != added.serving));
        // An expired certificate is of no use to anybody.
        assert!(renewed(&added, end + 91 * DAY, false).is_some_and(|next| next.serving != added.serving));
    }

    #[test]
    fn other_names_and_unusable_certificates_are_replaced_at_once() {
        let first = issued();
        let more = [names(), vec!["other.ns.svc".to_owned()]].concat();
        let second = first.renewed(&more, LIFETIMES, START, false).unwrap().unwrap();
        assert_eq!(second.authorities, first.authorities);
        assert!(signing::is_accepted(&second.serving, &certificates_of(&first.authorities), &more, START));
        let broken = |change: fn(&mut IssuedCertificates)| {
            let mut broken = issued();
            change(&mut broken);
            let repaired = renewed(&broken, START, false).unwrap();
            assert!(accepts(&repaired, &repaired, START));
        };
        broken(|certificates| certificates.authorities.clear());
        broken(|certificates| certificates.authority_key = "nothing".to_owned());
        broken(|certificates| certificates.authority_key = issued().authority_key);
        broken(|certificates| certificates.serving.key = issued().serving.key);
        broken(|certificates| certificates.serving.certificate = "nothing".to_owned());
    }

    #[test]
    fn an_invalid_name_is_an_error_and_keys_are_not_printed() {
        let refused = IssuedCertificates::issue(&["größe".to_owned()], LIFETIMES, START);
        assert!(matches!(refused, Err(RotationError::Name { .. })), "{refused:?}");
        let text = format!("{:?} {:?}", issued(), issued().serving);
        assert!(!text.contains("PRIVATE"), "{text}");
    }
}
