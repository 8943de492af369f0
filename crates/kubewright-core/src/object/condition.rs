//! Conditions in the status of an object.

use std::mem;
use std::ops::{Deref, DerefMut};

use crate::meta::v1::Condition;
use crate::{Object, Str, Time};

impl Condition {
    /// A condition that is `True` or `False`, with a reason (one CamelCase word) and a message.
    ///
    /// ```
    /// use kubewright_core::meta::v1::Condition;
    /// let condition = Condition::new("Ready", false, "NoReplicas", "0 of 3 replicas are ready");
    /// assert_eq!(condition.status, "False");
    /// ```
    pub fn new(type_: impl Into<Str>, holds: bool, reason: impl Into<Str>, message: impl Into<Str>) -> Self {
        Condition {
            type_: type_.into(),
            status: Str::from_static(if holds { "True" } else { "False" }),
            reason: reason.into(),
            message: message.into(),
            ..Default::default()
        }
    }

    /// Sets the observed generation to that of the object that the condition was computed from.
    #[must_use]
    pub fn observing(self, object: &impl Object) -> Self {
        Condition { observed_generation: object.generation(), ..self }
    }
}

/// The condition of this type.
#[doc(alias = "FindStatusCondition")]
#[inline]
pub fn find<'a>(conditions: &'a [Condition], type_: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Adds a condition or updates the one of its type. Returns whether anything changed.
///
/// The transition time changes only with the status: to the given time, or to now if none is given.
/// Setting the same condition again changes nothing, so a controller can skip the write. The
/// conditions are a `Vec` or a
/// [`List`](crate::List).
///
/// ```
/// use kubewright_core::{condition::set_status_condition, meta::v1::Condition};
/// let mut conditions = Vec::new();
/// let ready = Condition { type_: "Ready".into(), status: "True".into(), ..Default::default() };
/// assert!(set_status_condition(&mut conditions, ready.clone()));
/// assert!(!set_status_condition(&mut conditions, ready));
/// assert!(conditions[0].last_transition_time.is_some());
/// ```
#[doc(alias = "SetStatusCondition")]
pub fn set_status_condition<C>(conditions: &mut C, mut new: Condition) -> bool
where
    C: DerefMut<Target = [Condition]> + Extend<Condition>,
{
    let Some(existing) = conditions.iter_mut().find(|condition| condition.type_ == new.type_) else {
        new.last_transition_time.get_or_insert_with(Time::now);
        conditions.extend([new]);
        return true;
    };
    new.last_transition_time = if existing.status == new.status {
        existing.last_transition_time
    } else {
        new.last_transition_time.or_else(|| Some(Time::now()))
    };
    let changed = *existing != new;
    *existing = new;
    changed
}

/// Removes the condition of this type; returns whether there was one.
#[doc(alias = "RemoveStatusCondition")]
pub fn remove<C>(conditions: &mut C, type_: &str) -> bool
where
    C: Deref<Target = [Condition]> + Default + FromIterator<Condition> + IntoIterator<Item = Condition>,
{
    let found = find(conditions, type_).is_some();
    if found {
        *conditions = mem::take(conditions).into_iter().filter(|condition| condition.type_ != type_).collect();
    }
    found
}

/// Whether the condition is present and `True`.
#[doc(alias = "IsStatusConditionTrue")]
#[inline]
pub fn is_true(conditions: &[Condition], type_: &str) -> bool {
    is_present_and_equal(conditions, type_, "True")
}

/// Whether the condition is present and `False`.
#[doc(alias = "IsStatusConditionFalse")]
#[inline]
pub fn is_false(conditions: &[Condition], type_: &str) -> bool {
    is_present_and_equal(conditions, type_, "False")
}

/// Whether the condition is present with this status: `True`, `False` or `Unknown`.
#[doc(alias = "IsStatusConditionPresentAndEqual")]
#[inline]
pub fn is_present_and_equal(conditions: &[Condition], type_: &str, status: &str) -> bool {
    find(conditions, type_).is_some_and(|condition| condition.status == status)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::List;

    fn condition(status: &str, reason: &str, time: Option<Time>) -> Condition {
        Condition {
            type_: "Ready".into(),
            status: status.into(),
            reason: reason.into(),
            last_transition_time: time,
            ..Default::default()
        }
    }

    #[test]
    fn a_new_condition_gets_a_time_unless_it_has_one() {
        let before = Time::now();
        let mut conditions = List::new();
        assert!(set_status_condition(&mut conditions, condition("True", "a", None)));
        assert!(conditions[0].last_transition_time.unwrap() >= before);
        conditions.clear();
        assert!(set_status_condition(&mut conditions, condition("True", "a", Some(before))));
        assert_eq!(conditions[0].last_transition_time, Some(before));
    }

    #[test]
    fn the_time_changes_only_with_the_status() {
        let now = Time::now();
        let mut conditions: List<Condition> = [condition("True", "a", None)].into();
        assert!(!set_status_condition(&mut conditions, condition("True", "a", Some(now))));
        assert!(set_status_condition(&mut conditions, condition("True", "b", Some(now))));
        assert_eq!(conditions[0], condition("True", "b", None));

        assert!(set_status_condition(&mut conditions, condition("False", "b", Some(now))));
        assert_eq!(conditions[0], condition("False", "b", Some(now)));
        assert!(set_status_condition(&mut conditions, condition("Unknown", "b", None)));
        assert!(conditions[0].last_transition_time.unwrap() >= now);
        assert_eq!(conditions.len(), 1);
    }

    #[test]
    fn message_and_generation_are_changes_too() {
        let mut conditions: List<Condition> = [condition("True", "a", None)].into();
        let message = Condition { message: "m".into(), ..condition("True", "a", None) };
        assert!(set_status_condition(&mut conditions, message.clone()));
        assert!(!set_status_condition(&mut conditions, message.clone()));
        assert!(set_status_condition(&mut conditions, Condition { observed_generation: Some(2), ..message }));
    }

    #[test]
    fn conditions_are_found_and_removed_by_type() {
        let mut conditions = vec![condition("False", "a", None)];
        assert!(is_false(&conditions, "Ready") && !is_true(&conditions, "Ready") && !is_false(&conditions, "Other"));
        assert!(is_present_and_equal(&conditions, "Ready", "False"));
        assert!(!remove(&mut conditions, "Other") && remove(&mut conditions, "Ready"));
        assert!(find(&conditions, "Ready").is_none());
    }
}
