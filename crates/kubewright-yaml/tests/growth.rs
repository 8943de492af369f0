//! The cost is linear in the size of the input, for any order of keys.

use kubewright_testing::{assert_linear, processor_time};

/// Entries of the smaller input.
const SMALL: usize = 4_000;

fn descending(count: usize) -> impl Iterator<Item = String> {
    (0..count).rev().map(|n| format!("k{n:07}"))
}

#[test]
fn yaml_is_decoded_in_any_order_of_keys() {
    let parse = |text: String| {
        let start = processor_time();
        drop(kubewright_yaml::parse(&text).expect("valid"));
        start
    };
    assert_linear(SMALL, |count| parse(descending(count).map(|key| key + ": 1\n").collect()));
    assert_linear(SMALL, |count| {
        let all: String = descending(count / 4).map(|key| format!("{{{key}: 1}},")).collect();
        parse(format!("a:\n  <<: [{all}]\n"))
    });
}
