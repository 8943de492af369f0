//! The `Date` header.

use hyper::header::HeaderValue;
use kubewright_core::Time;
use kubewright_net::clock;

const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// Caches the `Date` header for one second.
pub(super) struct Date {
    second: i64,
    value: HeaderValue,
}

impl Default for Date {
    fn default() -> Self {
        Date { second: i64::MIN, value: HeaderValue::from_static("") }
    }
}

impl Date {
    pub(super) fn now(&mut self) -> HeaderValue {
        let now = clock::now();
        if now.as_unix() != self.second {
            self.second = now.as_unix();
            self.value = HeaderValue::try_from(written(now)).expect("it is plain text");
        }
        self.value.clone()
    }
}

/// Formats a time as an HTTP date.
fn written(time: Time) -> String {
    let (text, day) = (time.to_string(), DAYS[time.as_unix().div_euclid(86_400).rem_euclid(7) as usize]);
    let month = text[5..7].parse::<usize>().map_or("Jan", |month| MONTHS[(month + 11) % 12]);
    format!("{day}, {} {month} {} {} GMT", &text[8..10], &text[..4], &text[11..19])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_http_writes_them() {
        let at = |seconds| written(Time::from_unix(seconds).expect("in range"));
        assert_eq!(at(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(at(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT");
    }
}
