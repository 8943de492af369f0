//! The shared record of candidates, changed by compare-and-swap.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

use kubewright_api::coordination::v1::{Lease, LeaseSpec};
use kubewright_client::{Api, Client, Error};
use kubewright_core::{Map, MicroTime, Object, ObjectKey, ResourceVersion, Str};

/// A boxed future.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The holder of a lease with its times.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct LeaderElectionRecord {
    /// The leader; empty if there is none.
    pub holder_identity: Str,
    /// How many seconds without a change others wait before they acquire it.
    pub lease_duration_seconds: i32,
    /// When the holder acquired it, by the holder's clock.
    pub acquire_time: Option<MicroTime>,
    /// When the holder last renewed it, by the holder's clock.
    pub renew_time: Option<MicroTime>,
    /// How often it has changed hands.
    pub leader_transitions: i32,
    /// The selection strategy of the control plane.
    pub strategy: Option<Str>,
    /// The holder that the control plane prefers.
    pub preferred_holder: Option<Str>,
}

impl LeaderElectionRecord {
    #[inline]
    pub(crate) fn duration(&self) -> Duration {
        Duration::from_secs(u64::try_from(self.lease_duration_seconds).unwrap_or_default())
    }
}

impl From<&LeaseSpec> for LeaderElectionRecord {
    #[inline]
    fn from(spec: &LeaseSpec) -> Self {
        LeaderElectionRecord {
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

impl From<&LeaderElectionRecord> for LeaseSpec {
    #[inline]
    fn from(record: &LeaderElectionRecord) -> Self {
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

/// Stores the record: a [`LeaseLock`], or a fake in tests.
#[doc(alias = "resourcelock.Interface")]
pub trait ResourceLock: Send + 'static {
    /// Reads the record, and remembers its state for the next [`update`](Self::update); `None` if
    /// there is none.
    fn get(&mut self) -> BoxFuture<'_, Result<Option<LeaderElectionRecord>, Error>>;

    /// Creates the record, if there is none.
    fn create<'a>(&'a mut self, record: &'a LeaderElectionRecord) -> BoxFuture<'a, Result<(), Error>>;

    /// Updates the record, if it is unchanged since it was last read or written.
    fn update<'a>(&'a mut self, record: &'a LeaderElectionRecord) -> BoxFuture<'a, Result<(), Error>>;

    /// The version that was last read or written.
    fn version(&self) -> ResourceVersion;

    /// The location of the record, for logs.
    fn describe(&self) -> String;
}

/// A record in a `Lease` object.
#[derive(Debug)]
pub struct LeaseLock {
    leases: Api<Lease>,
    key: ObjectKey,
    labels: Map<Str>,
    seen: Option<Lease>,
}

impl LeaseLock {
    /// The lease of this namespace and name. `timeout` limits requests.
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

impl ResourceLock for LeaseLock {
    #[inline]
    fn get(&mut self) -> BoxFuture<'_, Result<Option<LeaderElectionRecord>, Error>> {
        Box::pin(async {
            self.seen = self.leases.get_opt(self.key.name()).await?;
            Ok(self.seen.as_ref().map(|lease| lease.spec.as_ref().map(LeaderElectionRecord::from).unwrap_or_default()))
        })
    }

    #[inline]
    fn create<'a>(&'a mut self, record: &'a LeaderElectionRecord) -> BoxFuture<'a, Result<(), Error>> {
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
    fn update<'a>(&'a mut self, record: &'a LeaderElectionRecord) -> BoxFuture<'a, Result<(), Error>> {
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
    fn a_record_round_trips_through_its_lease() {
        // LE-13
        let record = LeaderElectionRecord {
            holder_identity: "a".into(),
            lease_duration_seconds: 15,
            acquire_time: Some(MicroTime::now()),
            renew_time: Some(MicroTime::now()),
            leader_transitions: 3,
            strategy: Some("OldestEmulationVersion".into()),
            preferred_holder: Some("b".into()),
        };
        assert_eq!(LeaderElectionRecord::from(&LeaseSpec::from(&record)), record);
        assert_eq!(LeaderElectionRecord::from(&LeaseSpec::default()), LeaderElectionRecord::default());
    }
}
