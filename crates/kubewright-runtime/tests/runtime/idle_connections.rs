//! Idle connections are closed by a manager's endpoints and by webhooks.

use kubewright_runtime::webhook::Webhooks;
use kubewright_runtime::{Manager, ManagerOptions};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use crate::support::{seconds, server};
use crate::webhook::{Files, Served, connect};

/// Sends half a request, and waits until the peer closes the connection.
async fn is_let_go(mut stream: impl AsyncRead + AsyncWrite + Unpin) -> bool {
    stream.write_all(b"GET /hea").await.unwrap();
    stream.flush().await.unwrap();
    // From here on only time passes.
    tokio::time::pause();
    let mut rest = Vec::new();
    timeout(seconds(40.0), stream.read_to_end(&mut rest)).await.is_ok()
}

#[tokio::test]
async fn endpoints_do_not_wait_for_a_question_without_end() {
    let server = server().await;
    let (tell, told) = oneshot::channel();
    let options = ManagerOptions::default().listen("127.0.0.1:0".parse().unwrap()).tell_address(tell);
    let (manager, stop) = (Manager::new(&server.client(), options), CancellationToken::new());
    let stopped = stop.clone();
    let running = tokio::spawn(async move { manager.run(&stopped).await });
    let stream = TcpStream::connect(told.await.unwrap()).await.unwrap();
    assert!(is_let_go(stream).await);
    stop.cancel();
    running.await.unwrap().unwrap();
}

#[tokio::test]
async fn webhooks_do_not_wait_for_a_question_without_end() {
    let files = Files::new("silent");
    let served = Served::start(files.server(Webhooks::new())).await;
    let stream = connect(served.address, &files.authority).await.unwrap();
    assert!(is_let_go(stream).await);
}
