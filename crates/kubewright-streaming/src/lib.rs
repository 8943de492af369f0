//! The streaming protocols of Kubernetes, without a network.
//!
//! A client asks for an upgrade ([`handshake`]), and then several streams share the connection:
//! over WebSocket, where the first byte of a message is the channel, or over [`spdy`]. [`command`]
//! serves exec and attach, [`port_forward`] serves connections to ports. The clients' side is in
//! `kubewright-client`.
//!
//! An API server does not take part: it finds the [`location`] of the kubelet, and copies bytes
//! between the two connections. kube-apiserver does the same for kubelets that have the feature
//! `ExtendWebSocketsToKubelet`, the default since 1.36.
//!
//! ```
//! use kubewright_streaming::location::split_name;
//!
//! // The name in the path of a proxy: scheme, name and port.
//! assert_eq!(split_name("services", "https:web:443").unwrap(), ("https", "web", "443"));
//! ```

mod channels;
pub mod command;
pub mod handshake;
pub mod links;
pub mod location;
pub mod options;
pub mod port_forward;
pub mod proxy;
pub mod spdy;
pub mod tunnel;
