//! A controller with a planted race, which a recording finds. See docs/src/replay.md.
//!
//! Each config map with the label `backup=wanted` is to get one copy. The controller looks into its
//! cache before it creates one. The cache may be older than the last write, and a generated name
//! never conflicts.
//!
//! `cargo run -p kubewright-examples --example planted_race -- --embedded --record run.kwrec`

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use kubewright::api::core::v1::ConfigMap;
use kubewright::options::ListOptions;
use kubewright::recording::{Recorder, RecordingOptions};
use kubewright::runtime::{BoxError, Context, Freshness, Manager, ManagerOptions, Outcome};
use kubewright::{Api, CancellationToken, Client, Object, Selector};
use kubewright_examples::Arguments;

#[derive(Debug, Parser)]
struct RaceArguments {
    #[command(flatten)]
    common: Arguments,
    /// Writes a recording.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
}

/// The controller with the race.
pub fn add_controllers(manager: &mut Manager) -> Result<(), BoxError> {
    manager.add(manager.controller::<ConfigMap>("backups").reconciling(back_up))?;
    Ok(())
}

async fn back_up(map: Arc<ConfigMap>, context: Context) -> Result<Outcome, BoxError> {
    if map.labels().get("backup") != Some("wanted") {
        return Ok(Outcome::Done);
    }
    let maps = context.api::<ConfigMap>(map.namespace());
    let selector: Selector = format!("backup-of={}", map.name()).parse()?;
    if !maps.list(&selector, Freshness::Cached).await?.is_empty() {
        return Ok(Outcome::Done);
    }
    // The race: this write is not tracked, so that nothing waits until the cache shows it.
    maps.untracked().create(&backup_of(&map)).await?;
    Ok(Outcome::Done)
}

/// The same controller without the race.
#[allow(dead_code, reason = "the tests use it")]
pub fn add_mended_controllers(manager: &mut Manager) -> Result<(), BoxError> {
    let controller = manager.controller::<ConfigMap>("backups").reconciling(|map, context| async move {
        if map.labels().get("backup") != Some("wanted") {
            return Ok(Outcome::Done);
        }
        let maps = context.api::<ConfigMap>(map.namespace());
        // A name that follows from the object: a second create conflicts, whatever the cache shows.
        let mut backup = backup_of(&map);
        backup.metadata.generate_name = None;
        backup.set_name(&format!("{}-backup", map.name()));
        match maps.create(&backup).await {
            Err(error) if error.is_already_exists() => Ok(Outcome::Done),
            created => Ok(created.map(|_| Outcome::Done)?),
        }
    });
    manager.add(controller)?;
    Ok(())
}

fn backup_of(map: &ConfigMap) -> ConfigMap {
    let mut backup = ConfigMap::default();
    backup.metadata.generate_name = Some(format!("{}-", map.name()).into());
    backup.metadata.labels.insert("backup-of", map.name().into());
    backup.data = map.data.clone();
    backup
}

/// Creates maps, and changes each at once.
pub async fn act(client: &Client, rounds: u32) -> Result<(), BoxError> {
    let maps = Api::<ConfigMap>::namespaced(client, "default");
    for number in 0..rounds {
        let mut map = ConfigMap::default();
        map.set_name(&format!("map-{number}"));
        if number % 2 == 0 {
            map.metadata.labels.insert("backup", "wanted".into());
        }
        let mut map = maps.create(&map).await?;
        map.data.insert("changed", "yes".into());
        maps.update(&map).await?;
    }
    Ok(())
}

#[tokio::main]
#[allow(dead_code, reason = "`main` is for the program")]
async fn main() -> kubewright_examples::Outcome {
    let arguments = RaceArguments::parse();
    let connection = arguments.common.connect().await?;
    let mut options = ManagerOptions::default();
    if let Some(file) = &arguments.record {
        options = options.record(Recorder::create(file, RecordingOptions::default())?);
    }
    let mut manager = Manager::new(&connection.client, options);
    add_controllers(&mut manager).map_err(|error| -> Box<dyn std::error::Error> { error })?;
    let stop = CancellationToken::new();
    let ended = stop.clone();
    let running = tokio::spawn(async move { manager.run(&ended).await });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let rounds = arguments.common.rounds.unwrap_or(20);
    act(&connection.client, rounds).await.map_err(|error| -> Box<dyn std::error::Error> { error })?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    stop.cancel();
    running.await??;
    let backups = Api::<ConfigMap>::namespaced(&connection.client, "default");
    let all = backups.list(&ListOptions::default().labels("backup-of".parse()?)).await?;
    println!("{} backups of {} maps", all.items.len(), rounds.div_ceil(2));
    Ok(())
}
