//! `kubewright proxy`: serves the cluster on a local port with the user's credentials.

mod guard;

use std::error::Error;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use http::header::{AUTHORIZATION, CONNECTION, HOST, TRANSFER_ENCODING};
use http::{Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto::Builder;
use kubewright_client::Client;
use tokio::net::TcpListener;

use crate::signals::TerminationSignals;

/// Size limit of a request body, equal to that of API servers.
const MAX_BODY: usize = 3 << 20;

/// Retry delay when the system is out of sockets.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// Address and cluster.
#[derive(Debug, Args)]
pub struct ProxyOptions {
    /// The port; 0 picks a free one.
    #[arg(long, short, default_value_t = 8001)]
    port: u16,
    /// The address to listen on. Every client that reaches it acts with your credentials.
    #[arg(long, default_value = "127.0.0.1")]
    address: std::net::IpAddr,
    #[command(flatten)]
    connection: crate::connection::Connection,
}

/// Serves until a termination signal.
pub async fn run(options: &ProxyOptions) -> Result<(), Box<dyn Error>> {
    let mut signals = TerminationSignals::new()?;
    let client = options.connection.client()?;
    let listener = TcpListener::bind(SocketAddr::new(options.address, options.port)).await?;
    crate::output::print(format!("Starting to serve on {}\n", listener.local_addr()?))?;
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = signals.wait() => return Ok(()),
        };
        // A failed connection, or a shortage of sockets, must not end the others.
        let Ok((stream, _)) = accepted else {
            tokio::time::sleep(ACCEPT_RETRY_DELAY).await;
            continue;
        };
        let client = client.clone();
        tokio::spawn(async move {
            let forward = service_fn(move |request| forward(client.clone(), request));
            // Connection errors concern only the client.
            let _ = Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), forward).await;
        });
    }
}

type ProxyResponse = Response<UnsyncBoxBody<Bytes, io::Error>>;

async fn forward(client: Client, request: Request<Incoming>) -> Result<ProxyResponse, io::Error> {
    if let Some(why) = guard::refusal(request.method(), request.uri(), request.headers()) {
        return Ok(text(StatusCode::FORBIDDEN, &format!("Forbidden: {why}\n")));
    }
    let (mut parts, body) = request.into_parts();
    let body = match Limited::new(body, MAX_BODY).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            return Ok(text(StatusCode::PAYLOAD_TOO_LARGE, "the request body is larger than 3 MiB\n"));
        }
        Err(error) => return Err(io::Error::other(error)),
    };
    // These headers concern the connection to the client, not the one to the server.
    for header in [HOST, CONNECTION, TRANSFER_ENCODING, AUTHORIZATION] {
        parts.headers.remove(header);
    }
    let path = parts.uri.path_and_query().map_or("/", |path| path.as_str());
    parts.uri = path.parse().map_err(io::Error::other)?;
    match client.transport().send(Request::from_parts(parts, body)).await {
        Ok(response) => Ok(response.map(|body| {
            let chunks = futures_util::StreamExt::map(body, |chunk| chunk.map(Frame::data).map_err(io::Error::other));
            BodyExt::boxed_unsync(StreamBody::new(chunks))
        })),
        Err(error) => Ok(text(StatusCode::BAD_GATEWAY, &format!("{error}\n"))),
    }
}

fn text(status: StatusCode, text: &str) -> ProxyResponse {
    let body = Full::from(text.to_owned()).map_err(|never| match never {}).boxed_unsync();
    let mut response = Response::new(body);
    *response.status_mut() = status;
    response
}
