//! Calls of the members of an etcd.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use kubewright_core::DecodeError;
use kubewright_core::protobuf::Encoder;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout_at};

use crate::channel::Channel;
use crate::endpoint::Endpoint;
use crate::error::EtcdError;
use crate::frames::framed;
use crate::messages::request::{RangeRequest, Transaction, WatchRequest, number};
use crate::messages::response::{LeaseResponse, RangeResponse, StatusResponse, TransactionResponse};
use crate::tls::TlsFiles;
use crate::watch::Watch;

/// How long a repeatable call waits for one member, if there are others.
const MEMBER_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause after all members have failed.
const PAUSE: Duration = Duration::from_millis(100);

/// How to reach etcd.
#[derive(Debug, Clone)]
pub struct ClientOptions {
    endpoints: Vec<Endpoint>,
    tls: Option<TlsFiles>,
    timeout: Duration,
}

impl ClientOptions {
    /// The members to call, at least one.
    pub fn new(endpoints: impl IntoIterator<Item = Endpoint>) -> Self {
        ClientOptions { endpoints: endpoints.into_iter().collect(), tls: None, timeout: Duration::from_secs(10) }
    }

    /// The files of TLS, which endpoints with `https` need.
    #[must_use]
    pub fn tls(mut self, files: TlsFiles) -> Self {
        self.tls = Some(files);
        self
    }

    /// The time limit of a call with all its repetitions. Ten seconds by default.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

/// A client of etcd. Clones share its connections.
#[derive(Clone)]
pub struct Client {
    shared: Arc<SharedClient>,
}

struct SharedClient {
    members: Vec<Member>,
    /// The member to call. It changes when a call fails.
    preferred: AtomicUsize,
    tls: Option<TlsFiles>,
    timeout: Duration,
}

struct Member {
    endpoint: Endpoint,
    channel: Mutex<Option<Channel>>,
}

/// Whether a call may be executed twice.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Repetition {
    Harmless,
    Harmful,
}

impl Client {
    /// A client. It connects when it is used.
    ///
    /// # Errors
    /// There is no endpoint, an endpoint needs TLS files that are missing, or they cannot be read.
    pub fn new(options: ClientOptions) -> Result<Self, std::io::Error> {
        let ClientOptions { endpoints, tls, timeout } = options;
        let invalid = |problem: String| std::io::Error::new(std::io::ErrorKind::InvalidInput, problem);
        if endpoints.is_empty() {
            return Err(invalid("there is no etcd endpoint".to_owned()));
        }
        if let Some(endpoint) = endpoints.iter().find(|endpoint| endpoint.has_tls && tls.is_none()) {
            return Err(invalid(format!("{endpoint} needs a file with the certificate authority of etcd")));
        }
        if let Some(tls) = &tls {
            tls.check()?;
        }
        let members = endpoints.into_iter().map(|endpoint| Member { endpoint, channel: Mutex::default() }).collect();
        let preferred = AtomicUsize::new(0);
        Ok(Client { shared: Arc::new(SharedClient { members, preferred, tls, timeout }) })
    }

    /// Reads keys. The result is linearizable: it shows all writes that were acknowledged before.
    ///
    /// # Errors
    /// [`EtcdError`].
    pub async fn range(&self, request: &RangeRequest) -> Result<RangeResponse, EtcdError> {
        let message = framed(|out| request.encode(&mut Encoder { out }));
        let response = self.call("/etcdserverpb.KV/Range", message, Repetition::Harmless).await?;
        decoded(RangeResponse::decode(&response))
    }

    /// Executes a transaction.
    ///
    /// # Errors
    /// [`EtcdError`]. Unless it [is unexecuted](EtcdError::is_unexecuted), the transaction may
    /// have been executed.
    pub async fn transaction(&self, request: &Transaction) -> Result<TransactionResponse, EtcdError> {
        let message = framed(|out| request.encode(&mut Encoder { out }));
        let response = self.call("/etcdserverpb.KV/Txn", message, Repetition::Harmful).await?;
        decoded(TransactionResponse::decode(&response))
    }

    /// Discards all superseded values up to `revision`.
    ///
    /// # Errors
    /// [`EtcdError`]; [compacted](EtcdError::is_compacted) if that has been done already.
    pub async fn compact(&self, revision: u64) -> Result<(), EtcdError> {
        let message = framed(|out| number(&mut Encoder { out }, 1, revision));
        self.call("/etcdserverpb.KV/Compact", message, Repetition::Harmless).await.map(drop)
    }

    /// Creates a lease, which ends after this time unless it is kept alive.
    ///
    /// # Errors
    /// [`EtcdError`].
    pub async fn grant_lease(&self, time: Duration) -> Result<i64, EtcdError> {
        let message = framed(|out| number(&mut Encoder { out }, 1, time.as_secs().max(1)));
        // A lease that nobody uses ends by itself.
        let response = self.call("/etcdserverpb.Lease/LeaseGrant", message, Repetition::Harmless).await?;
        decoded(LeaseResponse::decode(&response)).map(|lease| lease.id)
    }

    /// Extends a lease. Returns its remaining time, or `None` if it has ended.
    ///
    /// # Errors
    /// [`EtcdError`].
    pub async fn keep_lease_alive(&self, lease: i64) -> Result<Option<Duration>, EtcdError> {
        let message = framed(|out| number(&mut Encoder { out }, 1, lease.cast_unsigned()));
        let channel = self.channel(self.preferred()).await?;
        let work = async {
            let (_sender, mut receiver) = channel.streaming("/etcdserverpb.Lease/LeaseKeepAlive", message).await?;
            receiver.next().await?.ok_or_else(|| EtcdError::malformed("etcd did not extend the lease"))
        };
        let response = timeout_at(Instant::now() + self.shared.timeout, work).await;
        let response = response.unwrap_or(Err(EtcdError::TimedOut))?;
        let lease = decoded(LeaseResponse::decode(&response))?;
        Ok((lease.seconds > 0).then(|| Duration::from_secs(lease.seconds)))
    }

    /// Ends a lease, and deletes its keys.
    ///
    /// # Errors
    /// [`EtcdError`].
    pub async fn revoke_lease(&self, lease: i64) -> Result<(), EtcdError> {
        let message = framed(|out| number(&mut Encoder { out }, 1, lease.cast_unsigned()));
        self.call("/etcdserverpb.Lease/LeaseRevoke", message, Repetition::Harmless).await.map(drop)
    }

    /// The state of the member that the client prefers.
    ///
    /// # Errors
    /// [`EtcdError`].
    pub async fn status(&self) -> Result<StatusResponse, EtcdError> {
        let message = framed(|_| {});
        let response = self.call("/etcdserverpb.Maintenance/Status", message, Repetition::Harmless).await?;
        decoded(StatusResponse::decode(&response))
    }

    /// Watches keys, at one member. The caller starts another watch when this one breaks.
    ///
    /// # Errors
    /// [`EtcdError`]. The next attempt goes to the next member.
    pub async fn watch(&self, request: &WatchRequest) -> Result<Watch, EtcdError> {
        let message = framed(|out| request.encode(&mut Encoder { out }));
        let index = self.preferred();
        let work = async {
            let channel = self.channel(index).await?;
            let (sender, receiver) = channel.streaming("/etcdserverpb.Watch/Watch", message).await?;
            Ok(Watch::new(sender, receiver))
        };
        let watch = timeout_at(Instant::now() + self.shared.timeout, work).await;
        let watch = watch.unwrap_or(Err(EtcdError::TimedOut));
        if watch.is_err() {
            self.fail(index).await;
        }
        watch
    }

    /// Goes on to the next member, because the preferred one does not work.
    pub async fn switch_member(&self) {
        self.fail(self.preferred()).await;
    }

    /// Calls a method of the preferred member, and of the others if that fails.
    async fn call(&self, method: &str, message: Bytes, repetition: Repetition) -> Result<Bytes, EtcdError> {
        let deadline = Instant::now() + self.shared.timeout;
        let mut attempts = 0;
        let mut unreachable = None;
        loop {
            let index = self.preferred();
            let until = match repetition {
                Repetition::Harmless if self.shared.members.len() > 1 => deadline.min(Instant::now() + MEMBER_TIMEOUT),
                _ => deadline,
            };
            let work = async { self.channel(index).await?.unary(method, message.clone()).await };
            let error = match timeout_at(until, work).await.unwrap_or(Err(EtcdError::TimedOut)) {
                Ok(response) => return Ok(response),
                // The deadline says less than the reason why earlier attempts failed.
                Err(EtcdError::TimedOut) if repetition == Repetition::Harmless => {
                    unreachable.take().unwrap_or(EtcdError::TimedOut)
                }
                Err(error) => error,
            };
            if error.is_transient() {
                self.fail(index).await;
            }
            let may_repeat = match repetition {
                Repetition::Harmless => error.is_transient(),
                Repetition::Harmful => error.is_transient() && error.is_unexecuted(),
            };
            attempts += 1;
            if !may_repeat {
                return Err(error);
            }
            if attempts % self.shared.members.len() == 0 {
                if Instant::now() + PAUSE >= deadline {
                    return Err(error);
                }
                sleep(PAUSE).await;
            }
            unreachable = matches!(error, EtcdError::Unreachable { .. }).then_some(error);
        }
    }

    fn preferred(&self) -> usize {
        self.shared.preferred.load(Ordering::Acquire)
    }

    /// Prefers the member after this one, and closes its connection.
    async fn fail(&self, index: usize) {
        let next = (index + 1) % self.shared.members.len();
        // Another call may have switched already.
        let _ = self.shared.preferred.compare_exchange(index, next, Ordering::AcqRel, Ordering::Acquire);
        self.shared.members[index].channel.lock().await.take();
    }

    /// The connection to a member.
    async fn channel(&self, index: usize) -> Result<Channel, EtcdError> {
        let member = &self.shared.members[index];
        // Callers that arrive while a connection is opened wait for the same one.
        let mut channel = member.channel.lock().await;
        if let Some(channel) = &*channel {
            return Ok(channel.clone());
        }
        let opened = Channel::open(&member.endpoint, self.shared.tls.as_ref()).await?;
        Ok(channel.insert(opened).clone())
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let endpoints = self.shared.members.iter().map(|member| &member.endpoint);
        f.debug_list().entries(endpoints).finish()
    }
}

fn decoded<T>(decoded: Result<T, DecodeError>) -> Result<T, EtcdError> {
    decoded.map_err(EtcdError::malformed)
}
