//! Servers that take a request and say nothing more, which Go waits for until the program ends.

use std::time::Duration;

use kubewright_cache::ReflectorOptions;

use crate::reflector::{Played, play_with};
use crate::script::{Answer, Script, half, listed, watched};

async fn play(script: Script, seconds: u64) -> Played {
    play_with(script, ReflectorOptions::default(), Duration::from_secs(seconds)).await
}

// RE-22
#[tokio::test(start_paused = true)]
async fn a_list_that_is_never_answered_is_asked_for_again() {
    let script = || Script::new([Answer::Silence, listed("10", "a@1"), watched("")]);
    let played = play(script(), 119).await;
    assert_eq!(played.requests, [r#"list "0" limit 500"#], "there are servers that take their time");
    let played = play(script(), 130).await;
    assert_eq!(played.requests, [r#"list "0" limit 500"#, r#"list "0" limit 500"#, r#"watch "10""#]);
    assert_eq!(played.objects(), "a@1");
    assert_eq!(played.errors.len(), 1, "{:?}", played.errors);
    assert!(played.errors[0].starts_with("cannot list"), "{:?}", played.errors);
}

// RE-22
#[tokio::test(start_paused = true)]
async fn a_list_that_stops_in_the_middle_is_asked_for_again() {
    let script = Script::new([half("a@1 b@2"), listed("10", "a@1"), watched("")]);
    let options = ReflectorOptions::default().patience(Duration::from_secs(5));
    let played = play_with(script, options, Duration::from_secs(10)).await;
    assert_eq!(played.requests, [r#"list "0" limit 500"#, r#"list "0" limit 500"#, r#"watch "10""#]);
    assert_eq!(played.objects(), "a@1", "half of a list is none");
}

// RE-3, RE-4
#[tokio::test(start_paused = true)]
async fn first_objects_that_do_not_come_are_asked_for_again() {
    let script = Script::new([watched("+a@1"), watched("+b@2 !9")]).streaming();
    let played = play(script, 200).await;
    assert_eq!(played.requests, [r#"watch "" from the start"#, r#"watch "" from the start"#]);
    assert_eq!(played.objects(), "b@2");
}

// RE-10
#[tokio::test(start_paused = true)]
async fn a_watch_that_never_begins_is_an_error() {
    let script = Script::new([listed("10", "a@1"), Answer::Silence, listed("11", "a@1"), watched("+b@12")]);
    let played = play(script, 130).await;
    assert_eq!(played.requests, [r#"list "0" limit 500"#, r#"watch "10""#, r#"list "10""#, r#"watch "11""#]);
    assert_eq!(played.objects(), "a@1 b@12");
}

// RE-12
#[tokio::test(start_paused = true)]
async fn a_watch_that_outlives_its_time_is_resumed() {
    let script = Script::new([listed("10", "a@1"), watched("+b@12"), watched("+c@13")]);
    let played = play(script, 661).await;
    assert_eq!(played.requests, [r#"list "0" limit 500"#, r#"watch "10""#, r#"watch "12""#]);
    assert_eq!(played.objects(), "a@1 b@12 c@13");
    assert!(played.errors.is_empty(), "{:?}", played.errors);
}
