//! The files of the page.

/// A file of the page.
pub(crate) struct Asset {
    pub(crate) content_type: &'static str,
    pub(crate) content: &'static str,
}

/// The file at a path. None contains secrets.
pub(crate) fn at(path: &str) -> Option<Asset> {
    let (content_type, content) = match path {
        "/" => ("text/html; charset=utf-8", include_str!("../assets/index.html")),
        "/style.css" => ("text/css; charset=utf-8", include_str!("../assets/style.css")),
        "/app.js" => ("text/javascript; charset=utf-8", include_str!("../assets/app.js")),
        "/pipeline.js" => ("text/javascript; charset=utf-8", include_str!("../assets/pipeline.js")),
        "/detail.js" => ("text/javascript; charset=utf-8", include_str!("../assets/detail.js")),
        "/timeline.js" => ("text/javascript; charset=utf-8", include_str!("../assets/timeline.js")),
        "/words.js" => ("text/javascript; charset=utf-8", include_str!("../assets/words.js")),
        "/icon.svg" => ("image/svg+xml", include_str!("../assets/icon.svg")),
        _ => return None,
    };
    Some(Asset { content_type, content })
}
