//! The terminal view: informers, controllers with their queues, workloads, and recent events.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::time::Duration;

use kubewright_cache::InformerState;
use kubewright_controllers::{ControllerActivity, ControllerContext};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{Instant, interval};
use tokio_util::sync::CancellationToken;

use super::news::{self, News};
use super::screen::{Line, Screen, TextStyle};
use super::story::{self, Story};
use super::usage::{self, Usage};
use super::workloads::{Pods, Rollout, Workloads};
use crate::log;

/// Redraw interval.
const FRAME: Duration = Duration::from_millis(200);
/// Start of the second column.
const SECOND: usize = 48;
/// Maximum number of deployments shown.
const ROLLOUTS: usize = 6;

/// The data sources of the view.
pub struct Shown {
    pub url: String,
    /// The URL of the dashboard.
    pub dashboard: Option<String>,
    /// The command with which kubectl reaches the cluster.
    pub kubectl: Option<String>,
    pub context: ControllerContext,
    pub story: Story,
}

/// The data of one frame.
struct Seen<'a> {
    shown: &'a Shown,
    up: Duration,
    usage: Option<Usage>,
    informers: Vec<InformerState>,
    controllers: Vec<(ControllerActivity, u64)>,
    pods: Pods,
    rollouts: Vec<Rollout>,
    news: &'a VecDeque<News>,
    story: Vec<story::StoryLine>,
    log: Vec<String>,
}

/// Draws until told to stop, and restores the terminal.
pub async fn show(shown: Shown, stop: &CancellationToken) -> io::Result<()> {
    let (sender, mut receiver) = mpsc::channel(1024);
    let following = tokio::spawn(news::follow(shown.context.client().clone(), sender));
    let workloads = Workloads::new(shown.context.factory());
    let mut resized = signal(SignalKind::window_change())?;
    // Ctrl-Z.
    let mut suspended = signal(SignalKind::from_raw(rustix::process::Signal::TSTP.as_raw()))?;
    log::keep();
    let (mut screen, start) = (Screen::open()?, Instant::now());
    let (mut news, mut speeds, mut frames) = (VecDeque::new(), Speeds::default(), interval(FRAME));
    let result = loop {
        tokio::select! {
            () = stop.cancelled() => break Ok(()),
            _ = resized.recv() => screen.resize(),
            _ = suspended.recv() => if let Err(error) = screen.suspend().await { break Err(error) },
            Some(one) = receiver.recv() => {
                if news.len() >= 100 {
                    news.pop_front();
                }
                news.push_back(one);
            }
            _ = frames.tick() => {
                let controllers = speeds.measure(shown.context.activity().controllers(), Instant::now());
                let seen = Seen {
                    shown: &shown,
                    up: start.elapsed(),
                    usage: usage::now(),
                    informers: shown.context.factory().informers(),
                    controllers,
                    pods: workloads.pods(),
                    rollouts: workloads.rollouts(),
                    news: &news,
                    story: shown.story.last(screen.size.1),
                    log: log::last(3),
                };
                if let Err(error) = screen.draw(&frame(&seen, screen.size.1)) {
                    break Err(error);
                }
            }
        }
    };
    following.abort();
    drop(screen);
    log::release();
    result
}

/// Reconciles per second of each controller.
#[derive(Default)]
struct Speeds {
    since: Option<Instant>,
    done: HashMap<&'static str, u64>,
    speed_of: HashMap<&'static str, u64>,
}

impl Speeds {
    fn measure(&mut self, controllers: Vec<ControllerActivity>, now: Instant) -> Vec<(ControllerActivity, u64)> {
        let elapsed = self.since.map_or(Duration::MAX, |since| now - since);
        if elapsed >= Duration::from_secs(1) {
            for controller in &controllers {
                let before = self.done.insert(controller.name, controller.reconciles).unwrap_or_default();
                let speed = (controller.reconciles - before) as f64 / elapsed.as_secs_f64();
                self.speed_of.insert(controller.name, speed.round() as u64);
            }
            self.since = Some(now);
        }
        let speed = |name| self.speed_of.get(name).copied().unwrap_or_default();
        controllers.into_iter().map(|controller| (controller.clone(), speed(controller.name))).collect()
    }
}

/// The lines of one frame.
fn frame(seen: &Seen<'_>, rows: usize) -> Vec<Line> {
    let mut lines = vec![title(seen)];
    lines.extend(seen.shown.dashboard.as_ref().map(|url| heading("dashboard  ").plain(url)));
    lines.push(Line::default());
    lines.extend(machinery(seen, rows.saturating_sub(8) / 2));
    lines.push(Line::default());
    lines.extend(workload_lines(seen));
    lines.push(Line::default());
    let foot = foot(seen);
    let room = rows.saturating_sub(lines.len() + foot.len() + 1);
    if seen.story.is_empty() {
        lines.push(heading("LAST EVENTS"));
        lines.extend(seen.news.iter().skip(seen.news.len().saturating_sub(room)).map(news_line));
    } else {
        lines.push(heading("STORY"));
        lines.extend(seen.story.iter().skip(seen.story.len().saturating_sub(room)).map(story_line));
    }
    lines.resize(rows.saturating_sub(foot.len()), Line::default());
    lines.extend(foot);
    lines
}

fn heading(text: &str) -> Line {
    Line::default().with(TextStyle::Dim, text)
}

fn title(seen: &Seen<'_>) -> Line {
    let mut line =
        Line::default().with(TextStyle::Bold, "kubewright up").plain("  ").with(TextStyle::Good, &seen.shown.url);
    line = line.plain(format!("  up {} s", seen.up.as_secs()));
    match &seen.usage {
        Some(usage) => line.with(TextStyle::Dim, format!("  {usage}")),
        None => line,
    }
}

/// Informers on the left, controllers on the right; if not all fit, idle ones are omitted.
fn machinery(seen: &Seen<'_>, room: usize) -> Vec<Line> {
    let synced = seen.informers.iter().filter(|informer| informer.has_synced).count();
    let of = seen.informers.len();
    let progress = if synced == of { String::new() } else { format!("  {synced} of {of} synced") };
    let head = heading("INFORMERS").with(TextStyle::Busy, progress).up_to(SECOND - 10);
    let head = head.with(TextStyle::Dim, "objects").up_to(SECOND);
    let columns =
        format!("{:22}{:>8}{:>5}{:>11}{:>6}{:>7}", "CONTROLLERS", "waiting", "busy", "reconciles", "per s", "errors");
    let mut lines = vec![head.with(TextStyle::Dim, columns)];
    let is_quiet = |informer: &InformerState| {
        informer.has_synced
            && informer.objects == 0
            && informer.health.as_ref().is_none_or(|health| health.failures == 0)
    };
    let left = fitting(&seen.informers, room, is_quiet, informer_line);
    let right =
        fitting(&seen.controllers, room, |(one, _)| one.reconciles == 0, |(one, speed)| controller_line(one, *speed));
    let rows = left.len().max(right.len());
    let mut sides = [left, right].map(|side| side.into_iter().chain(std::iter::repeat_with(Line::default)));
    let [left, right] = &mut sides;
    lines.extend(left.zip(right).take(rows).map(|(left, right)| left.up_to(SECOND).then(right)));
    lines
}

/// The lines of as many items as fit, omitting idle ones first, and the number of omitted ones.
fn fitting<T>(items: &[T], room: usize, is_quiet: impl Fn(&T) -> bool, line: impl Fn(&T) -> Line) -> Vec<Line> {
    let mut surplus = if items.len() > room { items.len() + 1 - room.max(1) } else { 0 };
    let hidden = surplus;
    let mut shown: Vec<&T> = Vec::with_capacity(items.len());
    for item in items.iter().rev() {
        if surplus > 0 && is_quiet(item) { surplus -= 1 } else { shown.push(item) }
    }
    shown.reverse();
    shown.truncate(items.len() - hidden);
    let rest = (hidden > 0).then(|| Line::default().with(TextStyle::Dim, format!("… {hidden} more")));
    shown.into_iter().map(line).chain(rest).collect()
}

fn informer_line(informer: &InformerState) -> Line {
    let failures = informer.health.as_ref().map_or(0, |health| health.failures);
    let (style, mark) = if failures > 0 {
        (TextStyle::Bad, "✗")
    } else if informer.has_synced {
        (TextStyle::Good, "✓")
    } else {
        (TextStyle::Busy, "…")
    };
    let line = Line::default().with(style, mark).plain(format!(" {}", shortened(&informer.name, SECOND - 16)));
    line.up_to(SECOND - 13).plain(format!("{:>10}", informer.objects))
}

/// A name truncated to `room` characters.
fn shortened(name: &str, room: usize) -> String {
    match name.char_indices().nth(room) {
        Some((end, _)) => format!("{}…", name[..end].trim_end()),
        None => name.to_owned(),
    }
}

fn controller_line(controller: &ControllerActivity, speed: u64) -> Line {
    let alarm = |number: u64, style| if number > 0 { style } else { TextStyle::Plain };
    let waiting = controller.depth as u64;
    Line::default()
        .plain(format!("{:22}", controller.name))
        .with(alarm(waiting, TextStyle::Busy), format!("{waiting:>8}"))
        .with(alarm(controller.busy, TextStyle::Good), format!("{:>5}", controller.busy))
        .plain(format!("{:>11}{speed:>6}", controller.reconciles))
        .with(alarm(controller.errors, TextStyle::Bad), format!("{:>7}", controller.errors))
}

fn workload_lines(seen: &Seen<'_>) -> Vec<Line> {
    let pods = seen.pods;
    let starting = pods.all - pods.ready - pods.stopping - pods.ended;
    let mut head = heading("WORKLOADS").plain(format!("  {} pods: ", pods.all));
    head = head.with(TextStyle::Good, format!("{} ready", pods.ready));
    for (count, what) in [(starting, "starting"), (pods.stopping, "stopping"), (pods.ended, "ended")] {
        if count > 0 {
            head = head.with(TextStyle::Busy, format!(", {count} {what}"));
        }
    }
    let complete = seen.rollouts.iter().filter(|rollout| rollout.is_complete()).count();
    head = head.plain(format!("  {} deployments: {complete} complete", seen.rollouts.len()));
    let rows = seen.rollouts.iter().take(ROLLOUTS).map(rollout_line);
    std::iter::once(head).chain(rows).collect()
}

/// A bar of available replicas, twenty characters wide.
fn rollout_line(rollout: &Rollout) -> Line {
    const WIDTH: i64 = 20;
    let part = |count: i32| i64::from(count.max(0)) * WIDTH / i64::from(rollout.wanted.max(1));
    let full = part(rollout.available).clamp(0, WIDTH);
    let bar = |character: &str, count: i64| character.repeat(usize::try_from(count).unwrap_or_default());
    let style = if rollout.is_complete() { TextStyle::Good } else { TextStyle::Busy };
    let line = Line::default().plain(format!("  {}", rollout.name)).up_to(30);
    let line = line.with(style, bar("█", full)).with(TextStyle::Dim, bar("░", WIDTH - full));
    line.plain(format!(
        "  {} of {} available, {} of the newest template",
        rollout.available, rollout.wanted, rollout.updated
    ))
}

fn news_line(news: &News) -> Line {
    let style = if news.is_warning { TextStyle::Bad } else { TextStyle::Plain };
    let line =
        Line::default().with(TextStyle::Dim, format!("{} ", news.time)).with(style, format!("{:20} ", news.reason));
    line.plain(&news.object).up_to(66).with(TextStyle::Dim, format!(" {}", news.message))
}

fn story_line(line: &story::StoryLine) -> Line {
    match line {
        story::StoryLine::Step(text) => Line::default().with(TextStyle::Bold, text),
        story::StoryLine::Told(text) => Line::default().plain(format!("  {text}")),
        story::StoryLine::Seen(text) => Line::default().with(TextStyle::Good, format!("  → {text}")),
    }
}

/// The last warnings, and a help line.
fn foot(seen: &Seen<'_>) -> Vec<Line> {
    let mut lines: Vec<Line> = seen.log.iter().map(|line| Line::default().with(TextStyle::Dim, line)).collect();
    let hint = match &seen.shown.kubectl {
        Some(kubectl) => format!("{kubectl} get pods -A     Ctrl-C stops"),
        None => "--write-kubeconfig FILE lets kubectl in     Ctrl-C stops".to_owned(),
    };
    lines.push(Line::default().with(TextStyle::Dim, hint));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_is_what_was_done_in_the_last_second() {
        let (mut speeds, start) = (Speeds::default(), Instant::now());
        let one = |reconciles| vec![ControllerActivity { name: "job", depth: 0, busy: 0, reconciles, errors: 0 }];
        assert_eq!(speeds.measure(one(4), start)[0].1, 0);
        assert_eq!(speeds.measure(one(9), start + Duration::from_millis(500))[0].1, 0);
        assert_eq!(speeds.measure(one(14), start + Duration::from_secs(2))[0].1, 5);
    }

    #[test]
    fn what_is_quiet_makes_room_for_what_is_not() {
        let lines = |room| {
            let lines = fitting(
                &[3, 0, 5, 0, 7],
                room,
                |number| *number == 0,
                |number| Line::default().plain(number.to_string()),
            );
            lines.iter().map(Line::text).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(lines(5), "3 0 5 0 7");
        assert_eq!(lines(4), "3 5 7 … 2 more");
        assert_eq!(lines(3), "3 5 … 3 more");
        assert_eq!(lines(1), "… 5 more");
    }
}
