//! Where candidates meet: a record that all of them see, and that changes only from a state that was seen.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use kubewright_api::coordination::v1::{Lease, LeaseSpec};
use kubewright_client::{Api, Client, Error};
use kubewright_core::{Map, MicroTime, Object, ObjectKey, ResourceVersion, Str};

/// Something on its way.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Who holds a lease, since when and for how long.
#[derive(Debug, Clone, Default, PartialEq)]
#[doc(alias = "LeaderElectionRecord")]
pub struct Record {
    /// Who leads; empty if nobody does.
    pub holder_identity: Str,
    /// For how many seconds without a change others leave it alone.
    pub lease_duration_seconds: i32,
    /// When the holder took it, by the holder's clock.
    pub acquire_time: Option<MicroTime>,
    /// When the holder last renewed it, by the holder's clock.
    pub renew_time: Option<MicroTime>,
    /// How often it has changed hands.
    pub leader_transitions: i32,
    /// How the control plane chooses the holder.
    pub strategy: Option<Str>,
    /// Whom the control plane would rather have as the holder.
    pub preferred_holder: Option<Str>,
}

impl Record {
    #[inline]
    pub(crate) fn duration(&self) -> Duration {
        Duration::from_secs(u64::try_from(self.lease_duration_seconds).unwrap_or_default())
    }
}

impl From<&LeaseSpec> for Record {
    #[inline]
    fn from(spec: &LeaseSpec) -> Self {
        Record {
            holder_identity: spec.holder_identity.clone().unwrap_or_default(),
            lease_duration_seconds: spec.lease_duration_seconds.unwrap_or_default(),
            acquire_time: spec.acquire_time,
            renew_time: spec.renew_time,
            leader_transitions: spec.lease_transitions.unwrap_or_default(),
            strategy: spec.strategy.clone(),
            preferred_holder: spec.preferred_holder.clone(),
        }
    }
}

impl From<&Record> for LeaseSpec {
    #[inline]
    fn from(record: &Record) -> Self {
        LeaseSpec {
            holder_identity: Some(record.holder_identity.clone()),
            lease_duration_seconds: Some(record.lease_duration_seconds),
            acquire_time: record.acquire_time,
            renew_time: record.renew_time,
            lease_transitions: Some(record.leader_transitions),
            strategy: record.strategy.clone(),
            preferred_holder: record.preferred_holder.clone(),
        }
    }
}

/// Keeps the record. A [`LeaseLock`], or what a test puts in its place.
#[doc(alias = "resourcelock.Interface")]
pub trait Lock: Send + 'static {
    /// Reads the record, and remembers the state that the next [`update`](Self::update) goes from; absent if there is none.
    fn get(&mut self) -> BoxFuture<'_, Result<Option<Record>, Error>>;

    /// Makes the record, if there is none.
    fn create<'a>(&'a mut self, record: &'a Record) -> BoxFuture<'a, Result<(), Error>>;

    /// Changes the record, if it is in the state that was last read or written.
    fn update<'a>(&'a mut self, record: &'a Record) -> BoxFuture<'a, Result<(), Error>>;

    /// The version of the state that was last read or written.
    fn version(&self) -> ResourceVersion;

    /// Where the record is, for people.
    fn describe(&self) -> String;
}

/// A record in an object of kind `Lease`.
#[derive(Debug)]
pub struct LeaseLock {
    leases: Api<Lease>,
    key: ObjectKey,
    labels: Map<Str>,
    seen: Option<Lease>,
}

impl LeaseLock {
    /// The lease of this namespace and name. Requests take no longer than `timeout`.
    #[inline]
    pub(super) fn new(client: &Client, key: ObjectKey, timeout: Duration) -> Self {
        let client = client.clone().request_timeout(timeout).add_user_agent("leader-election");
        LeaseLock { leases: Api::namespaced(&client, key.namespace().clone()), key, labels: Map::new(), seen: None }
    }

    #[inline]
    pub(super) fn labels(mut self, labels: Map<Str>) -> Self {
        self.labels = labels;
        self
    }

    #[inline]
    fn label(&self, lease: &mut Lease) {
        for (name, value) in &self.labels {
            lease.metadata.labels.insert(name.clone(), value.clone());
        }
    }
}

impl Lock for LeaseLock {
    #[inline]
    fn get(&mut self) -> BoxFuture<'_, Result<Option<Record>, Error>> {
        Box::pin(async {
            self.seen = self.leases.get_opt(self.key.name()).await?;
            Ok(self.seen.as_ref().map(|lease| lease.spec.as_ref().map(Record::from).unwrap_or_default()))
        })
    }

    #[inline]
    fn create<'a>(&'a mut self, record: &'a Record) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async {
            let mut lease = Lease { spec: Some(record.into()), ..Default::default() };
            lease.set_name(self.key.name());
            lease.set_namespace(self.key.namespace());
            self.label(&mut lease);
            self.seen = Some(self.leases.create(&lease).await?);
            Ok(())
        })
    }

    #[inline]
    fn update<'a>(&'a mut self, record: &'a Record) -> BoxFuture<'a, Result<(), Error>> {
        Box::pin(async {
            let Some(seen) = &self.seen else {
                return Err(Error::InvalidRequest("the lease was not read before it is written".to_owned()));
            };
            let mut lease = seen.clone();
            lease.spec = Some(record.into());
            self.label(&mut lease);
            self.seen = Some(self.leases.update(&lease).await?);
            Ok(())
        })
    }

    #[inline]
    fn version(&self) -> ResourceVersion {
        self.seen.as_ref().map(|lease| lease.resource_version().into()).unwrap_or_default()
    }

    #[inline]
    fn describe(&self) -> String {
        self.key.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_survives_the_lease_it_is_kept_in() {
        // LE-13
        let record = Record {
            holder_identity: "a".into(),
            lease_duration_seconds: 15,
            acquire_time: Some(MicroTime::now()),
            renew_time: Some(MicroTime::now()),
            leader_transitions: 3,
            strategy: Some("OldestEmulationVersion".into()),
            preferred_holder: Some("b".into()),
        };
        assert_eq!(Record::from(&LeaseSpec::from(&record)), record);
        assert_eq!(Record::from(&LeaseSpec::default()), Record::default());
    }
}
