//! Reads one small ConfigMap repeatedly, and prints the latency.
//!
//! usage: bench-latency KUBECONFIG NAMESPACE json|protobuf READS

use std::time::{Duration, Instant};

use kubewright_api::core::v1::ConfigMap;
use kubewright_client::config::{LoadingRules, Overrides};
use kubewright_client::{Api, Client, Config};
use kubewright_core::{Object, Str};

type Problem = Box<dyn std::error::Error>;

const NAME: &str = "bench-latency";
const WARM_UP: usize = 200;

#[tokio::main]
async fn main() -> Result<(), Problem> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [kubeconfig, namespace, encoding, reads] = &arguments[..] else {
        return Err("usage: bench-latency KUBECONFIG NAMESPACE json|protobuf READS".into());
    };
    let config = Config::from_kubeconfig(&LoadingRules::explicit(kubeconfig).load()?, &Overrides::default())?;
    let mut client = Client::try_from(config)?;
    if encoding == "json" {
        client = client.json_only();
    }
    let maps = Api::<ConfigMap>::namespaced(&client, namespace.as_str());
    let mut map = ConfigMap::default();
    map.set_name(NAME);
    map.data.insert("colour", Str::from("green"));
    match maps.create(&map).await {
        Err(error) if !error.is_already_exists() => return Err(error.into()),
        _ => {}
    }
    for _ in 0..WARM_UP {
        maps.get(NAME).await?;
    }
    let mut times = Vec::with_capacity(reads.parse()?);
    for _ in 0..times.capacity() {
        let start = Instant::now();
        let map = maps.get(NAME).await?;
        times.push(start.elapsed());
        assert_eq!(map.data.get("colour").map(|colour| &**colour), Some("green"));
    }
    times.sort();
    let micros = |part: f64| -> f64 {
        let time: Duration = times[((times.len() - 1) as f64 * part) as usize];
        time.as_secs_f64() * 1e6
    };
    println!(r#"{{"p50": {:.1}, "p90": {:.1}, "p99": {:.1}}}"#, micros(0.5), micros(0.9), micros(0.99));
    Ok(())
}
