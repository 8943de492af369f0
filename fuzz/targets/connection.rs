//! Sends bytes to an in-memory server, and reads its response.

use std::time::Duration;

use kubewright_apiserver::ApiServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Simulated time after which a connection is abandoned, for example that of a watch.
const PATIENCE: Duration = Duration::from_secs(60);

/// Serves one connection with these bytes. The server must still respond on others afterwards.
pub fn serve(bytes: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build();
    runtime.expect("a runtime without threads").block_on(async {
        let server = ApiServer::in_memory().start().await.expect("nothing can fail without a socket");
        exchange(server.connect(), bytes).await;
        let answer = exchange(server.connect(), b"GET /version HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await;
        assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
        server.stop().await;
    });
}

async fn exchange(stream: tokio::io::DuplexStream, bytes: &[u8]) -> Vec<u8> {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let mut answer = Vec::new();
    // The writer stays open: the server abandons requests of clients that have gone.
    let (write, read) = (writer.write_all(bytes), reader.read_to_end(&mut answer));
    let _ = tokio::time::timeout(PATIENCE, async { tokio::join!(write, read) }).await;
    answer
}
