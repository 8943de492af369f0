//! `kubewright up`: all that makes a cluster, in one process.
//!
//! `news` follows what happens, and is shown by `view` in a terminal or by `plain` as lines; `demo` makes something happen.

mod demo;
mod news;
mod plain;
mod screen;
mod story;
mod usage;
mod view;
mod workloads;

use std::error::Error;

use clap::Args;
use kubewright_controllers::{ControllerSet, NodeOptions};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::apiserver::{self, announce, start};
use crate::progress;
use crate::signals::Signals;
use screen::Screen;
use story::Story;

/// What `up` takes besides what the server takes.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    server: apiserver::Options,
    /// How many simulated nodes run pods; with none, pods stay pending.
    #[arg(long, value_name = "N", default_value_t = 3)]
    nodes: u32,
    /// Shows a control plane at work, and explains each step as it happens.
    ///
    /// A replica set goes from 1 to 2, a pod is deleted and comes back, a deployment of 8 rolls to another version. All of it
    /// happens in the namespace `demo`, to real objects, which stay.
    #[arg(long)]
    demo: bool,
    /// Writes log lines also where standard output is a terminal.
    #[arg(long)]
    plain: bool,
}

/// Runs all that makes a cluster: the API server, controllers, and nodes.
pub async fn up(options: Options) -> Result<(), Box<dyn Error>> {
    let mut signals = Signals::new()?;
    let verbosity = options.server.verbosity;
    verbosity.start();
    if options.demo && options.nodes == 0 {
        return Err("without nodes no pod of --demo would ever run; leave --nodes out".into());
    }
    let server = start(&options.server).await?;
    let nodes = NodeOptions::default().count(options.nodes);
    let mut controllers = ControllerSet::new(&server.client()).nodes(nodes);
    if let Some(authority) = server.certificate_authority() {
        controllers = controllers.root_ca(authority);
    }
    let mut controllers = controllers.start();
    let context = controllers.context().clone();
    announce(&options.server, &server)?;

    let is_live = Screen::is_possible() && !options.plain && !verbosity.is_quiet();
    let (stop, mut onlookers) = (CancellationToken::new(), JoinSet::new());
    let story = Story::new(is_live);
    if is_live {
        let shown = view::Shown {
            url: server.url().unwrap_or_default().to_owned(),
            kubeconfig: options.server.write_kubeconfig.clone(),
            context: context.clone(),
            story: story.clone(),
        };
        let stop = stop.clone();
        onlookers.spawn(async move { view::show(shown, &stop).await });
    } else if !verbosity.is_quiet() {
        let (context, stop) = (context.clone(), stop.clone());
        onlookers.spawn(async move {
            progress::until_synced(context.factory()).await;
            // The story is told in lines of its own.
            plain::tell(&context, !options.demo, &stop).await
        });
    }
    if options.demo {
        let (context, stop) = (context.clone(), stop.clone());
        onlookers.spawn(async move {
            match stop.run_until_cancelled(demo::play(&context, &story)).await {
                Some(Err(error)) => Err(std::io::Error::other(format!("the demo failed: {error}"))),
                _ => Ok(()),
            }
        });
    }
    // Else they would keep the caches, and the events that wait, from being finished.
    drop(context);

    let ended = tokio::select! {
        () = signals.wait() => Ok(()),
        ended = controllers.ended() => Err(ended.err().map_or("a controller ended by itself".into(), Box::<dyn Error>::from)),
        failed = first_failure(&mut onlookers) => Err(Box::<dyn Error>::from(failed)),
    };
    stop.cancel();
    while onlookers.join_next().await.is_some() {}
    // Controllers first: what they have in hand still needs the server.
    let stopped = controllers.stop().await;
    server.stop().await;
    ended?;
    if !verbosity.is_quiet()
        && let Some(usage) = usage::now()
    {
        tracing::info!("stopped; {usage}");
    }
    Ok(stopped?)
}

/// Waits until an onlooker fails. Those that end by themselves are not missed.
async fn first_failure(onlookers: &mut JoinSet<std::io::Result<()>>) -> std::io::Error {
    while let Some(ended) = onlookers.join_next().await {
        match ended {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return error,
            Err(error) => return std::io::Error::other(error),
        }
    }
    std::future::pending().await
}
