//! What happens, as the events of the cluster tell it.

use std::time::Duration;

use kubewright_api::core::v1::Event;
use kubewright_client::{Api, Client};
use kubewright_core::Time;
use kubewright_core::options::WatchOptions;
use kubewright_core::stream::WatchEvent;
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::log::clock;

/// One thing that happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct News {
    /// When, as a time of the day.
    pub time: String,
    /// Whether somebody has to look.
    pub is_warning: bool,
    /// Why, in a word.
    pub reason: String,
    /// To what, as `Pod default/web-0`.
    pub object: String,
    /// What.
    pub message: String,
}

/// Sends what happens from now on, until nobody receives it.
pub async fn follow(client: Client, news: mpsc::Sender<News>) {
    let api = Api::<Event>::all(&client);
    while !news.is_closed() {
        // From now on: what was before is no news. A watch that ends is begun anew, and may miss what happened meanwhile.
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
