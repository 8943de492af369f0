//! Two informers of one type that watch this replica's share, each in its own namespace.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use kubewright_api::core::v1::{ConfigMap, Namespace};
use kubewright_apiserver::RunningServer;
use kubewright_cache::{
    FactoryOptions, InformerHandle, InformerScope, ReflectorBackoff, ReflectorOptions, SharedInformerFactory,
};
use kubewright_client::transport::{ResponseFuture, TransportError, TransportErrorKind};
use kubewright_client::{Api, Client};
use kubewright_core::Object;
use kubewright_runtime::Sharding;
use kubewright_runtime::election::LeaderElectionOptions;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use crate::support::{config_map, eventually, server};

const SHARDS: usize = 12;
const MAPS: usize = 40;

/// A client whose requests for config maps of the namespace `other` are not answered while
/// `is_refused`.
fn refusing(server: &RunningServer, is_refused: &Arc<AtomicBool>) -> Client {
    let (client, is_refused) = (server.client(), is_refused.clone());
    Client::over(move |request: http::Request<bytes::Bytes>| -> ResponseFuture {
        let is_other = request.uri().path().ends_with("/namespaces/other/configmaps");
        if is_other && is_refused.load(Ordering::Relaxed) {
            return Box::pin(async { Err(TransportError::new(TransportErrorKind::Connect, "connection refused")) });
        }
        client.transport().send(request)
    })
}

fn replica(client: &Client, identity: &str, seed: u64) -> Sharding {
    let options = LeaderElectionOptions::default().seed(seed);
    Sharding::new(client, "default", "group", identity, SHARDS, options).unwrap()
}

fn run(sharding: &Sharding) -> (CancellationToken, AbortOnDropHandle<()>) {
    let (sharding, stop) = (sharding.clone(), CancellationToken::new());
    let stopped = stop.clone();
    (stop, AbortOnDropHandle::new(tokio::spawn(async move { sharding.run(&stopped).await.unwrap() })))
}

fn held(share: &InformerHandle<ConfigMap>) -> usize {
    share.store().list().iter().filter(|map| map.name().starts_with("map-")).count()
}

#[tokio::test(start_paused = true)]
async fn the_list_of_one_informer_is_not_attributed_to_another() {
    let server = server().await;
    let mut other = Namespace::default();
    other.set_name("other");
    Api::<Namespace>::all(&server.client()).create(&other).await.unwrap();
    for namespace in ["default", "other"] {
        let maps = Api::<ConfigMap>::namespaced(&server.client(), namespace);
        for number in 0..MAPS {
            let mut map = config_map(&format!("map-{number}"));
            map.set_namespace(namespace);
            maps.create(&map).await.unwrap();
        }
    }
    let is_refused = Arc::new(AtomicBool::new(false));
    let client = refusing(&server, &is_refused);
    let first = replica(&client, "first", 1);
    let share = |namespace: &str, options: FactoryOptions| {
        let factory = SharedInformerFactory::new(&client, options);
        let share = first.informer::<ConfigMap>(&factory, InformerScope::default().namespace(namespace));
        factory.start(&CancellationToken::new());
        (factory, share)
    };
    // The other one has a long back-off.
    let slow = ReflectorBackoff {
        initial: Duration::from_secs(100),
        cap: Duration::from_secs(100),
        jitter: 0.0,
        ..ReflectorBackoff::default()
    };
    let (_factory, here) = share("default", FactoryOptions::default());
    let (_other_factory, there) =
        share("other", FactoryOptions::default().reflector(ReflectorOptions::default().backoff(slow)));
    let (_stop, _first) = run(&first);
    eventually("all is here", async || held(&here) == MAPS && held(&there) == MAPS).await;
    let second = replica(&client, "second", 2);
    let (stop, running) = run(&second);
    sleep(Duration::from_secs(330)).await;
    assert!((1..SHARDS).contains(&first.owned_shards().len()));
    assert!((1..MAPS).contains(&held(&here)) && (1..MAPS).contains(&held(&there)));
    // The other one waits to resume its watch, which does not require another list.
    is_refused.store(true, Ordering::Relaxed);
    server.faults().cut_watches();
    sleep(Duration::from_secs(1)).await;
    stop.cancel();
    running.await.unwrap();
    eventually("all has come back here", async || held(&here) == MAPS).await;
    assert!(held(&there) < MAPS);
    is_refused.store(false, Ordering::Relaxed);
    eventually("and there", async || held(&there) == MAPS).await;
    assert_eq!(first.is_cut_by_server::<ConfigMap>(), Some(false));
}
