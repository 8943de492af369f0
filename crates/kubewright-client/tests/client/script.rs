//! A server with scripted responses that records its requests.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream;
use http::{Request, Response};
use kubewright_client::Client;
use kubewright_client::transport::{Body, ResponseFuture, Transport, TransportError, TransportErrorKind};
use tokio::time::{Instant, Sleep, sleep};

/// One step of a script.
pub enum Step {
    Answer(Answer),
    Fail(TransportErrorKind),
}

/// A response in chunks.
pub struct Answer {
    code: u16,
    headers: Vec<(&'static str, String)>,
    chunks: VecDeque<Result<Bytes, TransportErrorKind>>,
    /// The delay between two chunks.
    pace: Duration,
}

pub fn answer(code: u16, body: impl Into<Bytes>) -> Answer {
    let chunks = VecDeque::from([Ok(body.into())]);
    Answer { code, headers: vec![("content-type", "application/json".into())], chunks, pace: Duration::ZERO }
}

impl Answer {
    pub fn header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.retain(|(have, _)| *have != name);
        self.headers.push((name, value.into()));
        self
    }

    /// Breaks the connection after the body.
    pub fn then_cut(mut self) -> Self {
        self.chunks.push_back(Err(TransportErrorKind::Disconnected));
        self
    }

    /// Sends the body byte by byte, with this delay.
    pub fn dripping(mut self, pace: Duration) -> Self {
        let bytes: Vec<u8> = self.chunks.drain(..).flatten().flatten().collect();
        self.chunks = bytes.into_iter().map(|byte| Ok(Bytes::copy_from_slice(&[byte]))).collect();
        self.pace = pace;
        self
    }
}

impl From<Answer> for Step {
    fn from(answer: Answer) -> Self {
        Step::Answer(answer)
    }
}

/// A recorded request with its time.
#[derive(Debug, Clone)]
pub struct Asked {
    pub line: String,
    pub headers: http::HeaderMap,
    pub body: Bytes,
    pub at: Instant,
}

#[derive(Clone, Default)]
pub struct Script {
    steps: Arc<Mutex<VecDeque<Step>>>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Script {
    pub fn new<S: Into<Step>>(steps: impl IntoIterator<Item = S>) -> Self {
        let script = Script::default();
        script.steps.lock().unwrap().extend(steps.into_iter().map(Into::into));
        script
    }

    pub fn client(&self) -> Client {
        Client::over(self.clone())
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    pub fn lines(&self) -> Vec<String> {
        self.asked().into_iter().map(|asked| asked.line).collect()
    }
}

impl Transport for Script {
    fn send(&self, request: Request<Bytes>) -> ResponseFuture {
        self.asked.lock().unwrap().push(Asked {
            line: format!("{} {}", request.method(), request.uri()),
            headers: request.headers().clone(),
            body: request.body().clone(),
            at: Instant::now(),
        });
        let step = self.steps.lock().unwrap().pop_front();
        Box::pin(async move {
            match step {
                Some(Step::Answer(answer)) => {
                    let mut response = Response::builder().status(answer.code);
                    for (name, value) in &answer.headers {
                        response = response.header(*name, value);
                    }
                    let body = Pieces { chunks: answer.chunks, pace: answer.pace, pause: None };
                    Ok(response.body(Body::new(body)).unwrap())
                }
                Some(Step::Fail(kind)) => Err(TransportError::new(kind, "scripted")),
                None => Err(TransportError::new(TransportErrorKind::Connect, "the script is over")),
            }
        })
    }
}

struct Pieces {
    chunks: VecDeque<Result<Bytes, TransportErrorKind>>,
    pace: Duration,
    pause: Option<Pin<Box<Sleep>>>,
}

impl Stream for Pieces {
    type Item = Result<Bytes, TransportError>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if !self.pace.is_zero() {
            let pace = self.pace;
            let pause = self.pause.get_or_insert_with(|| Box::pin(sleep(pace)));
            std::task::ready!(pause.as_mut().poll(context));
            self.pause = None;
        }
        let chunk = self.chunks.pop_front();
        Poll::Ready(chunk.map(|chunk| chunk.map_err(|kind| TransportError::new(kind, "scripted"))))
    }
}
