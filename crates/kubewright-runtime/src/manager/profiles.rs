//! CPU and heap profiles for `go tool pprof`, at the paths of Go's `net/http/pprof`.
//!
//! A profiler interrupts threads with a signal and unwinds their stacks in its handler. It skips
//! samples inside the C library and the unwinder, whose locks the handler would take again. Time in
//! the C library, such as that of system calls and of `memcpy`, is therefore missing.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use bytes::Bytes;
use hyper::header::{CONTENT_DISPOSITION, CONTENT_TYPE, HeaderValue};
use hyper::{Method, Request, Response, StatusCode};
use pprof::protos::Message;
use pprof::{Frames, ProfilerGuard, ProfilerGuardBuilder, Symbol};
use tokio::sync::{Mutex, MutexGuard};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// Samples of a second of CPU time, as in Go.
const FREQUENCY: i32 = 100;
/// Libraries whose samples are skipped: `libc.so` and `libgcc_s.so` have locks, as has the loader;
/// the vDSO cannot be unwound everywhere.
const SKIPPED: [&str; 5] = ["libc", "libgcc", "pthread", "ld-linux", "vdso"];
/// Duration of a CPU profile without `seconds`, as in Go.
const DEFAULT_SECONDS: u64 = 30;
/// The longest CPU profile.
const MOST_SECONDS: u64 = 300;

/// Held while a CPU profile is taken: a process has one timer for all of them.
static TAKING: Mutex<()> = Mutex::const_new(());

/// A CPU profile that is being taken.
struct CpuProfile {
    profiler: ProfilerGuard<'static>,
    _taking: MutexGuard<'static, ()>,
}

impl CpuProfile {
    fn start(taking: MutexGuard<'static, ()>) -> Result<Self, ProfileError> {
        let builder = ProfilerGuardBuilder::default().frequency(FREQUENCY);
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        let builder = builder.blocklist(&SKIPPED);
        let profiler = builder.build().map_err(|error| ProfileError::failed("start the CPU profiler", error))?;
        Ok(CpuProfile { profiler, _taking: taking })
    }

    fn encode(self) -> Result<Vec<u8>, ProfileError> {
        let mut report = self.profiler.report();
        let profile = report.frames_post_processor(drop_profiler).build().and_then(|report| report.pprof());
        Ok(profile.map_err(|error| ProfileError::failed("write the CPU profile", error))?.encode_to_vec())
    }
}

/// Removes the frames of the profiler, which are above those of the interrupted function.
fn drop_profiler(frames: &mut Frames) {
    let is_profiler = |frame: &Vec<Symbol>| frame.iter().any(|symbol| symbol.name().contains("pprof::backtrace"));
    if let Some(at) = frames.frames.iter().position(is_profiler) {
        frames.frames.drain(..=at);
    }
}

/// Why there is no profile.
#[derive(Debug)]
struct ProfileError {
    status: StatusCode,
    text: String,
}

impl ProfileError {
    fn new(status: StatusCode, text: impl Into<String>) -> Self {
        ProfileError { status, text: text.into() }
    }

    fn failed(what: &str, error: impl fmt::Display) -> Self {
        ProfileError::new(StatusCode::INTERNAL_SERVER_ERROR, format!("cannot {what}: {error}"))
    }
}

/// `/debug/pprof/profile?seconds=N`: where the process spends its CPU time during N seconds.
pub(super) async fn cpu(request: Request<()>) -> Response<Bytes> {
    let profile = async {
        let seconds = seconds(request.uri().query().unwrap_or_default())?;
        let busy = || ProfileError::new(StatusCode::CONFLICT, "another CPU profile is being taken");
        let taking = TAKING.try_lock().map_err(|_| busy())?;
        // Loads the symbols of the unwinder, which reads files.
        let profile = blocking(|| CpuProfile::start(taking)).await?;
        sleep(Duration::from_secs(seconds)).await;
        blocking(|| profile.encode()).await
    };
    answer(&request, "profile", profile).await
}

/// `/debug/pprof/heap`: which functions allocated the memory in use.
pub(super) async fn heap(request: Request<()>) -> Response<Bytes> {
    let profile = blocking(|| {
        let inactive = "heap profiles need jemalloc as the global allocator, started with \
                        _RJEM_MALLOC_CONF=prof:true in the environment";
        let profiler = jemalloc_pprof::PROF_CTL.as_ref().filter(|profiler| profiler.blocking_lock().activated());
        let profiler = profiler.ok_or_else(|| ProfileError::new(StatusCode::NOT_IMPLEMENTED, inactive))?;
        let profile = profiler.blocking_lock().dump_pprof();
        profile.map_err(|error| ProfileError::failed("write the heap profile", format_args!("{error:#}")))
    });
    answer(&request, "heap", profile).await
}

/// The response of a profile. HEAD takes none.
async fn answer(
    request: &Request<()>,
    name: &str,
    profile: impl Future<Output = Result<Vec<u8>, ProfileError>>,
) -> Response<Bytes> {
    let profile = if request.method() == Method::HEAD { Ok(Vec::new()) } else { profile.await };
    let (status, content_type, body) = match profile {
        Ok(profile) => (StatusCode::OK, "application/octet-stream", profile.into()),
        Err(ProfileError { status, text }) => (status, "text/plain; charset=utf-8", format!("{text}\n").into()),
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    if status == StatusCode::OK
        && let Ok(disposition) = HeaderValue::try_from(format!("attachment; filename=\"{name}\""))
    {
        headers.insert(CONTENT_DISPOSITION, disposition);
    }
    response
}

/// The parameter `seconds` of a query.
fn seconds(query: &str) -> Result<u64, ProfileError> {
    let Some(value) = query.split('&').find_map(|parameter| parameter.strip_prefix("seconds=")) else {
        return Ok(DEFAULT_SECONDS);
    };
    let seconds = value.parse().ok().filter(|seconds| (1..=MOST_SECONDS).contains(seconds));
    let invalid = format!("seconds has to be a number from 1 to {MOST_SECONDS}");
    seconds.ok_or_else(|| ProfileError::new(StatusCode::BAD_REQUEST, invalid))
}

/// Runs work that reads files or takes long outside the executor.
async fn blocking<R: Send + 'static>(
    work: impl FnOnce() -> Result<R, ProfileError> + Send + 'static,
) -> Result<R, ProfileError> {
    spawn_blocking(work).await.unwrap_or_else(|error| Err(ProfileError::failed("take the profile", error)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_bounded() {
        assert_eq!(seconds("").unwrap(), 30);
        assert_eq!(seconds("debug=0&seconds=5").unwrap(), 5);
        for invalid in ["seconds=0", "seconds=301", "seconds=-1", "seconds=", "seconds=1s"] {
            assert_eq!(seconds(invalid).unwrap_err().status, StatusCode::BAD_REQUEST, "{invalid}");
        }
    }
}
