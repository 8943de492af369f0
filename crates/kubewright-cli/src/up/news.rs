//! News: events of the cluster.

use std::time::Duration;

use kubewright_api::core::v1::Event;
use kubewright_client::{Api, Client};
use kubewright_core::Time;
use kubewright_core::options::WatchOptions;
use kubewright_core::stream::WatchEvent;
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::log::clock;

/// An event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    /// The time of day.
    pub time: String,
    /// Whether it is a warning.
    pub is_warning: bool,
    /// The reason.
    pub reason: String,
    /// The object, such as `Pod default/web-0`.
    pub object: String,
    /// The message.
    pub message: String,
}

/// Sends new events until the receiver is dropped.
pub async fn follow(client: Client, news: mpsc::Sender<News>) {
    let api = Api::<Event>::all(&client);
    while !news.is_closed() {
        // Only new events. A watch that ends is restarted, and may miss events in between.
        if let Ok(mut watch) = api.watch(&WatchOptions::default()).await {
            let started = Time::now();
            while let Some(Ok(event)) = watch.next().await {
                if let WatchEvent::Added(event) | WatchEvent::Modified(event) = event
                    && event
                        .last_timestamp
                        .or(event.metadata.creation_timestamp)
                        .is_none_or(|time| is_new(time, started))
                    && news.send(news_of(&event)).await.is_err()
                {
                    return;
                }
            }
        }
        sleep(Duration::from_secs(1)).await;
    }
}

/// Times of events have no fractions.
fn is_new(time: Time, started: Time) -> bool {
    time.checked_add(Duration::from_secs(1)).is_none_or(|time| time >= started)
}

fn news_of(event: &Event) -> News {
    let about = &event.involved_object;
    let text = |text: &Option<kubewright_core::Str>| text.as_deref().unwrap_or_default().to_owned();
    let namespace = about.namespace.as_deref().map_or_else(String::new, |namespace| format!("{namespace}/"));
    News {
        time: clock(event.last_timestamp.unwrap_or_else(Time::now)),
        is_warning: event.type_.as_deref() == Some("Warning"),
        reason: text(&event.reason),
        object: format!("{} {namespace}{}", text(&about.kind), text(&about.name)),
        message: text(&event.message),
    }
}
