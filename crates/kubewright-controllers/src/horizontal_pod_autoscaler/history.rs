//! The memory of an autoscaler: recent recommendations and changes, which slow down further ones.

use std::time::Duration;

use kubewright_api::autoscaling::v2::{HPAScalingPolicy, HPAScalingRules};
use tokio::time::Instant;

/// The stabilization window on the way down, unless the behavior sets another.
/// kube-controller-manager: `--horizontal-pod-autoscaler-downscale-stabilization`.
const DOWNSCALE_STABILIZATION: i32 = 300;
/// Without a behavior, one step at most doubles the replicas, or reaches this number.
const SCALE_UP_MIN: i32 = 4;

/// The limits of an autoscaler.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    pub(super) min: i32,
    pub(super) max: i32,
    pub(super) current: i32,
}

/// The rules of an autoscaler with a behavior.
#[derive(Debug, Clone, Copy)]
pub(super) struct Behavior<'a> {
    pub(super) up: &'a HPAScalingRules,
    pub(super) down: &'a HPAScalingRules,
}

/// A decision: the number of replicas, and two conditions as reason and message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Decision {
    pub(super) replicas: i32,
    pub(super) able: (&'static str, &'static str),
    /// Whether the replicas differ from what the metrics ask for.
    pub(super) is_limited: bool,
    pub(super) limited: (&'static str, &'static str),
}

/// Recommendations and changes of one autoscaler.
#[derive(Debug, Default)]
pub(super) struct History {
    recommendations: Vec<(Instant, i32)>,
    /// Replicas added or removed, both positive.
    added: Vec<(Instant, i32)>,
    removed: Vec<(Instant, i32)>,
}

impl History {
    /// Notes the replicas of a target that is seen for the first time.
    pub(super) fn begin(&mut self, replicas: i32, now: Instant) {
        if self.recommendations.is_empty() {
            self.recommendations.push((now, replicas));
        }
    }

    /// Notes a change of the target, if the behavior limits changes.
    pub(super) fn changed(&mut self, behavior: Option<Behavior<'_>>, from: i32, to: i32, now: Instant) {
        let Some(behavior) = behavior else { return };
        let (changes, rules) =
            if to > from { (&mut self.added, behavior.up) } else { (&mut self.removed, behavior.down) };
        let longest = rules.policies.iter().map(|policy| policy.period_seconds).max().unwrap_or_default();
        forget(changes, seconds(longest), now);
        changes.push((now, (to - from).abs()));
    }

    /// The replicas to scale to, when the metrics ask for `desired`.
    #[doc(alias = "normalizeDesiredReplicas")]
    pub(super) fn decide(
        &mut self,
        desired: i32,
        limits: Limits,
        behavior: Option<Behavior<'_>>,
        now: Instant,
    ) -> Decision {
        let (up_window, down_window) = match behavior {
            None => (None, seconds(DOWNSCALE_STABILIZATION)),
            Some(behavior) => {
                let window = |rules: &HPAScalingRules, default| rules.stabilization_window_seconds.unwrap_or(default);
                (Some(seconds(window(behavior.up, 0))), seconds(window(behavior.down, DOWNSCALE_STABILIZATION)))
            }
        };
        let stable = self.stabilize(desired, limits.current, up_window, down_window, now);
        let able = if stable == desired {
            ("ReadyForNewScale", "recommended size matches current size")
        } else if desired >= limits.current && behavior.is_some() {
            let message =
                "recent recommendations were lower than current one, applying the lowest recent recommendation";
            ("ScaleUpStabilized", message)
        } else {
            let message =
                "recent recommendations were higher than current one, applying the highest recent recommendation";
            ("ScaleDownStabilized", message)
        };
        let (replicas, limited) = match behavior {
            None => limit_by_default(stable, limits),
            Some(behavior) => self.limit(stable, limits, behavior, now),
        };
        Decision { replicas, able, is_limited: replicas != stable, limited }
    }

    /// The recommendation, or a more cautious one of the stabilization windows. Without an upper
    /// window, increases are applied at once.
    fn stabilize(
        &mut self,
        desired: i32,
        current: i32,
        up_window: Option<Duration>,
        down_window: Duration,
        now: Instant,
    ) -> i32 {
        let within = |time: Instant, window: Duration| now.duration_since(time) < window;
        let (mut lowest, mut highest) = (desired, desired);
        for (time, recommendation) in &self.recommendations {
            if up_window.is_some_and(|window| within(*time, window)) {
                lowest = lowest.min(*recommendation);
            }
            if within(*time, down_window) {
                highest = highest.max(*recommendation);
            }
        }
        forget(&mut self.recommendations, down_window.max(up_window.unwrap_or_default()), now);
        self.recommendations.push((now, desired));
        if up_window.is_none() {
            return highest;
        }
        // Moved from the current replicas into the range of the two.
        current.max(lowest).min(highest)
    }

    /// Applies the policies of a behavior.
    #[doc(alias = "convertDesiredReplicasWithBehaviorRate")]
    fn limit(
        &self,
        desired: i32,
        limits: Limits,
        behavior: Behavior<'_>,
        now: Instant,
    ) -> (i32, (&'static str, &'static str)) {
        let start = |policy: &HPAScalingPolicy| {
            let period = seconds(policy.period_seconds);
            limits.current - sum_within(&self.added, period, now) + sum_within(&self.removed, period, now)
        };
        if desired > limits.current {
            let proposals = behavior.up.policies.iter().map(|policy| match &*policy.type_ {
                "Percent" => (f64::from(start(policy)) * (1.0 + f64::from(policy.value) / 100.0)).ceil() as i32,
                _ => start(policy).saturating_add(policy.value),
            });
            let limit = match behavior.up.select_policy.as_deref() {
                Some("Disabled") => Some(limits.current),
                Some("Min") => proposals.min(),
                _ => proposals.max(),
            };
            let limit = limit.unwrap_or(limits.current).max(limits.current);
            if limits.max > limit && desired > limit {
                let message = "the desired replica count is increasing faster than the maximum scale rate";
                return (limit, ("ScaleUpLimit", message));
            }
            if desired > limits.max {
                return (limits.max, TOO_MANY);
            }
        } else if desired < limits.current {
            let proposals = behavior.down.policies.iter().map(|policy| match &*policy.type_ {
                "Percent" => (f64::from(start(policy)) * (1.0 - f64::from(policy.value) / 100.0)) as i32,
                _ => start(policy).saturating_sub(policy.value),
            });
            let limit = match behavior.down.select_policy.as_deref() {
                Some("Disabled") => Some(limits.current),
                // The smallest change leaves the most replicas.
                Some("Min") => proposals.max(),
                _ => proposals.min(),
            };
            let limit = limit.unwrap_or(limits.current).min(limits.current);
            if limits.min < limit && desired < limit {
                let message = "the desired replica count is decreasing faster than the maximum scale rate";
                return (limit, ("ScaleDownLimit", message));
            }
            if desired < limits.min {
                return (limits.min, TOO_FEW);
            }
        }
        (desired, WITHIN_RANGE)
    }
}

const TOO_MANY: (&str, &str) = ("TooManyReplicas", "the desired replica count is more than the maximum replica count");
const TOO_FEW: (&str, &str) = ("TooFewReplicas", "the desired replica count is less than the minimum replica count");
const WITHIN_RANGE: (&str, &str) = ("DesiredWithinRange", "the desired count is within the acceptable range");

/// The limits without a behavior.
#[doc(alias = "convertDesiredReplicasWithRules")]
fn limit_by_default(desired: i32, limits: Limits) -> (i32, (&'static str, &'static str)) {
    let step = limits.current.saturating_mul(2).max(SCALE_UP_MIN);
    if desired < limits.min {
        (limits.min, TOO_FEW)
    } else if desired > step && limits.max > step {
        let message = "the desired replica count is increasing faster than the maximum scale rate";
        (step, ("ScaleUpLimit", message))
    } else if desired > limits.max {
        (limits.max, TOO_MANY)
    } else {
        (desired, WITHIN_RANGE)
    }
}

fn seconds(count: i32) -> Duration {
    Duration::from_secs(count.max(0).unsigned_abs().into())
}

fn sum_within(changes: &[(Instant, i32)], period: Duration, now: Instant) -> i32 {
    changes.iter().filter(|(time, _)| now.duration_since(*time) < period).map(|(_, count)| count).sum()
}

/// Removes what is older than a period.
fn forget(samples: &mut Vec<(Instant, i32)>, period: Duration, now: Instant) {
    samples.retain(|(time, _)| now.duration_since(*time) < period);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(window: i32, select: &str, policies: &[(&str, i32, i32)]) -> HPAScalingRules {
        let policy = |(kind, value, period): &(&str, i32, i32)| HPAScalingPolicy {
            type_: (*kind).into(),
            value: *value,
            period_seconds: *period,
        };
        HPAScalingRules {
            stabilization_window_seconds: Some(window),
            select_policy: Some(select.into()),
            policies: policies.iter().map(policy).collect(),
            tolerance: None,
        }
    }

    fn after(start: Instant, count: u64) -> Instant {
        start + Duration::from_secs(count)
    }

    #[test]
    fn without_a_behavior_a_step_doubles_and_the_way_down_waits_five_minutes() {
        let (mut history, start) = (History::default(), Instant::now());
        let limits = |current| Limits { min: 1, max: 10, current };
        history.begin(3, start);
        let up = history.decide(9, limits(3), None, start);
        assert_eq!((up.replicas, up.is_limited, up.limited.0), (6, true, "ScaleUpLimit"));
        let down = history.decide(2, limits(6), None, after(start, 299));
        assert_eq!((down.replicas, down.able.0), (9, "ScaleDownStabilized"));
        let later = history.decide(2, limits(6), None, after(start, 300));
        assert_eq!((later.replicas, later.able.0, later.limited.0), (2, "ReadyForNewScale", "DesiredWithinRange"));
        assert_eq!(history.decide(99, limits(8), None, after(start, 301)).limited.0, "TooManyReplicas");
    }

    #[test]
    fn policies_limit_the_change_in_their_period() {
        let (mut history, start) = (History::default(), Instant::now());
        let (up, down) = (rules(0, "Max", &[("Pods", 2, 60)]), rules(0, "Max", &[("Percent", 50, 60)]));
        let behavior = Some(Behavior { up: &up, down: &down });
        let limits = |current| Limits { min: 1, max: 100, current };
        let first = history.decide(10, limits(4), behavior, start);
        assert_eq!((first.replicas, first.limited.0), (6, "ScaleUpLimit"));
        history.changed(behavior, 4, 6, start);
        // The period still has the first two.
        assert_eq!(history.decide(10, limits(6), behavior, after(start, 59)).replicas, 6);
        assert_eq!(history.decide(10, limits(6), behavior, after(start, 60)).replicas, 8);
        let halved = history.decide(1, limits(8), behavior, after(start, 200));
        assert_eq!((halved.replicas, halved.limited.0), (4, "ScaleDownLimit"));
    }

    #[test]
    fn a_disabled_direction_keeps_the_replicas_and_windows_choose_the_cautious_one() {
        let (mut history, start) = (History::default(), Instant::now());
        let (up, down) = (rules(60, "Max", &[("Pods", 100, 60)]), rules(0, "Disabled", &[]));
        let behavior = Some(Behavior { up: &up, down: &down });
        let limits = Limits { min: 1, max: 100, current: 5 };
        assert_eq!(history.decide(2, limits, behavior, start).replicas, 5);
        let waiting = history.decide(9, limits, behavior, after(start, 59));
        assert_eq!((waiting.replicas, waiting.able.0), (5, "ScaleUpStabilized"));
        assert_eq!(history.decide(9, limits, behavior, after(start, 120)).replicas, 9);
    }
}
