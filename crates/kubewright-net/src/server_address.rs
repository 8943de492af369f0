//! Server addresses in configurations.

use http::Uri;

/// Parses a server address. Without a scheme it gets `https`, or `http` if TLS does not apply.
///
/// The error does not repeat the text, which may contain a password.
pub(crate) fn server_uri(text: &str, tls: bool) -> Result<Uri, String> {
    let full =
        if text.contains("://") { text.to_owned() } else { format!("{}://{text}", if tls { "https" } else { "http" }) };
    let uri: Uri = full.parse().map_err(|error| format!("is no URL: {error}"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) {
        return Err("is neither http nor https".to_owned());
    }
    if uri.query().is_some() || full.contains('#') {
        return Err("has more than a host and a path".to_owned());
    }
    let authority = uri.authority().map(http::uri::Authority::as_str).unwrap_or_default();
    if uri.host().is_none_or(str::is_empty) || authority.contains('@') {
        return Err("has no plain host".to_owned());
    }
    // Usually a scheme that was mistaken for a host.
    if authority.ends_with(':') {
        return Err("has a colon with no port after it; a URL starts with http:// or https://".to_owned());
    }
    Ok(uri)
}
