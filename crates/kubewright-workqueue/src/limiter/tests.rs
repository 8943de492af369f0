//! The test tables of client-go's limiters, as data.

use proptest::{collection::vec, prelude::*};
use tokio::time::Instant;

use super::*;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// Calls `when` once for each expected delay.
fn delays<T>(limiter: &mut impl RateLimiter<T>, key: &T, count: usize) -> Vec<Duration> {
    (0..count).map(|_| limiter.when(key)).collect()
}

// RL-2
#[test]
fn exponential_delays_double_up_to_the_maximum() {
    let mut limiter = ItemExponential::new(MS, SECOND);
    assert_eq!(delays(&mut limiter, &"one", 5), [1, 2, 4, 8, 16].map(Duration::from_millis));
    assert_eq!(limiter.num_requeues(&"one"), 5);
    assert_eq!(delays(&mut limiter, &"two", 2), [1, 2].map(Duration::from_millis));
    assert_eq!(limiter.num_requeues(&"two"), 2);
    limiter.forget(&"one");
    assert_eq!(limiter.num_requeues(&"one"), 0);
    assert_eq!(limiter.when(&"one"), MS);
}

// RL-2
#[test]
fn exponential_delays_do_not_overflow() {
    for (base, max) in [(MS, 1000 * SECOND), (60 * SECOND, 1000 * 3600 * SECOND)] {
        let mut limiter = ItemExponential::new(base, max);
        let first = delays(&mut limiter, &"key", 1000);
        assert_eq!(first[0], base);
        assert!(first.is_sorted());
        assert_eq!(delays(&mut limiter, &"key", 2), [max, max]);
        assert_eq!(limiter.num_requeues(&"key"), 1002);
    }
    let mut nothing = ItemExponential::new(Duration::ZERO, SECOND);
    assert!(delays(&mut nothing, &"key", 2000).iter().all(Duration::is_zero));
}

// RL-3
#[test]
fn fast_attempts_precede_slow_ones() {
    let (fast, slow) = (5 * MS, 10 * SECOND);
    let mut limiter = ItemFastSlow::new(fast, slow, 3);
    assert_eq!(delays(&mut limiter, &"one", 5), [fast, fast, fast, slow, slow]);
    assert_eq!(limiter.num_requeues(&"one"), 5);
    assert_eq!(delays(&mut limiter, &"two", 2), [fast, fast]);
    limiter.forget(&"one");
    assert_eq!(limiter.num_requeues(&"one"), 0);
    assert_eq!(limiter.when(&"one"), fast);
}

// RL-4
#[test]
fn the_longest_delay_wins_and_every_limiter_counts() {
    let fast_slow = Arc::new(Mutex::new(ItemFastSlow::new(5 * MS, 3 * SECOND, 3)));
    let mut limiter = MaxOf::new().and(fast_slow.clone()).and(ItemExponential::new(MS, SECOND));
    let expected = [5, 5, 5, 3000, 3000].map(Duration::from_millis);
    assert_eq!(delays(&mut limiter, &"one", 5), expected);
    assert_eq!(limiter.num_requeues(&"one"), 5);
    assert_eq!(fast_slow.num_requeues(&"one"), 5);
    assert_eq!(delays(&mut limiter, &"two", 2), [5 * MS, 5 * MS]);
    limiter.forget(&"one");
    assert_eq!((limiter.num_requeues(&"one"), fast_slow.num_requeues(&"one")), (0, 0));
    assert_eq!(limiter.when(&"one"), 5 * MS);
    assert_eq!(MaxOf::new().when(&"one"), Duration::ZERO);
}

// RL-5
#[test]
fn a_maximum_wait_caps_the_delay() {
    let mut limiter = WithMaxWait::new(ItemFastSlow::new(5 * MS, 5000 * MS, 3), 500 * MS);
    assert_eq!(delays(&mut limiter, &"one", 5), [5, 5, 5, 500, 500].map(Duration::from_millis));
    assert_eq!(limiter.num_requeues(&"one"), 5);
    limiter.forget(&"one");
    assert_eq!(limiter.when(&"one"), 5 * MS);
}

// RL-1
#[tokio::test(start_paused = true)]
async fn a_bucket_gives_its_burst_and_then_one_token_at_a_time() {
    let mut bucket = BucketRateLimiter::new(2.0, 3);
    assert_eq!(delays(&mut bucket, &"key", 5), [0, 0, 0, 500, 1000].map(Duration::from_millis));
    assert_eq!(RateLimiter::num_requeues(&bucket, &"key"), 0);
    RateLimiter::forget(&mut bucket, &"key");
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(delays(&mut bucket, &"key", 3), [0, 0, 500].map(Duration::from_millis));
    tokio::time::sleep(3600 * SECOND).await;
    assert_eq!(delays(&mut bucket, &"key", 4), [0, 0, 0, 500].map(Duration::from_millis));
}

// RL-1
#[test]
fn a_zero_rate_waits_forever_and_an_infinite_rate_never() {
    assert_eq!(BucketRateLimiter::new(10.0, 0).when(&"key"), FOREVER);
    assert_eq!(delays(&mut BucketRateLimiter::new(0.0, 1), &"key", 2), [Duration::ZERO, FOREVER]);
    assert_eq!(delays(&mut BucketRateLimiter::new(f64::NAN, 1), &"key", 2)[1], FOREVER);
    assert_eq!(delays(&mut BucketRateLimiter::new(f64::MIN_POSITIVE, 1), &"key", 2)[1], FOREVER);
    assert!(delays(&mut BucketRateLimiter::new(f64::INFINITY, 0), &"key", 9).iter().all(Duration::is_zero));
}

// RL-6
#[tokio::test(start_paused = true)]
async fn the_defaults_equal_those_of_client_go() {
    let mut limiter = controller_default();
    assert_eq!(delays(&mut limiter, &0, 3), [5, 10, 20].map(Duration::from_millis));
    // 5 ms doubled 14 times: the last delay of a Deployment before it is given up.
    assert_eq!(delays(&mut limiter, &0, 12)[11], Duration::from_millis(81_920));
    (1..=85).for_each(|key| assert_eq!(limiter.when(&key), 5 * MS));
    assert_eq!(delays(&mut limiter, &-1, 2), [100, 200].map(Duration::from_millis));
    let mut item = item_default();
    assert_eq!(delays(&mut item, &0, 3), [1, 2, 4].map(Duration::from_millis));
    assert_eq!(delays(&mut item, &0, 40)[39], 1000 * SECOND);
}

proptest! {
    #[test]
    fn jitter_lengthens_by_at_most_the_factor(seed: u64, factor in 0.01..4.0, base in 1..u64::MAX) {
        let base = Duration::from_nanos(base);
        let mut limiter = Jittered::new(ItemExponential::new(base, FOREVER), factor).seed(seed);
        let delay = limiter.when(&"key");
        let plain = base.min(FOREVER);
        prop_assert!(delay >= plain && delay <= FOREVER);
        prop_assert!(delay <= plain.mul_f64(1.0 + factor).saturating_add(MS) || delay == FOREVER);
    }

    // RL-1
    #[test]
    fn a_bucket_never_exceeds_rate_and_burst(burst in 1..20u32, pauses in vec(0..400u64, 1..100)) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let start = Instant::now();
            let mut bucket = BucketRateLimiter::new(10.0, burst);
            let mut passed: Vec<f64> = Vec::new();
            for pause in pauses {
                tokio::time::sleep(Duration::from_millis(pause)).await;
                passed.push((start.elapsed() + bucket.when(&())).as_secs_f64());
            }
            for (first, from) in passed.iter().enumerate() {
                for (last, to) in passed.iter().enumerate().skip(first) {
                    let allowed = f64::from(burst) + (to - from) * 10.0;
                    assert!((last - first + 1) as f64 <= allowed + 1e-6);
                }
            }
        });
    }
}
