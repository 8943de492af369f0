//! Names of images, as a container runtime reads them.

/// A name with its defaults: registry, `library/`, and the tag `latest`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Reference {
    pub(super) registry: String,
    /// Without the registry.
    pub(super) repository: String,
    /// The tag or, if the name has one, the digest.
    pub(super) version: String,
    is_digest: bool,
}

impl Reference {
    /// Reads the name of an image. The error has the words of a kubelet.
    pub(super) fn parse(image: &str) -> Result<Self, String> {
        let malformed = |why: &str| format!("couldn't parse image name {image:?}: {why}");
        let (registry, rest) = match image.split_once('/') {
            Some((host, rest)) if is_registry(host) => (host, rest),
            _ => ("docker.io", image),
        };
        let registry = if registry == "index.docker.io" { "docker.io" } else { registry };
        let (tagged, digest) = match rest.split_once('@') {
            Some((tagged, digest)) => (tagged, Some(digest)),
            None => (rest, None),
        };
        let (repository, tag) = match tagged.split_once(':') {
            Some((repository, tag)) => (repository, Some(tag)),
            None => (tagged, None),
        };
        let repository = match registry {
            "docker.io" if !repository.contains('/') => format!("library/{repository}"),
            _ => repository.to_owned(),
        };
        if repository.chars().any(char::is_uppercase) {
            let why = format!("invalid reference format: repository name ({repository}) must be lowercase");
            return Err(malformed(&why));
        }
        let is_valid = repository.split('/').all(is_component)
            && tag.is_none_or(is_tag)
            && digest.is_none_or(is_digest)
            && repository.len() < 256;
        if !is_valid {
            return Err(malformed("invalid reference format"));
        }
        let version = digest.or(tag).unwrap_or("latest").to_owned();
        Ok(Reference { registry: registry.to_owned(), repository, version, is_digest: digest.is_some() })
    }

    /// The last part of the repository, such as `nginx`.
    pub(super) fn base_name(&self) -> &str {
        self.repository.rsplit('/').next().unwrap_or_default()
    }

    /// The name with all defaults.
    pub(super) fn full_name(&self) -> String {
        let separator = if self.is_digest { '@' } else { ':' };
        format!("{}/{}{separator}{}", self.registry, self.repository, self.version)
    }
}

/// Whether the first part of a name is a host. `library` in `library/nginx` is none.
fn is_registry(host: &str) -> bool {
    let has_name = host.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".-:[]".contains(&byte));
    has_name && !host.is_empty() && (host.contains(['.', ':']) || host == "localhost")
}

/// Lower-case letters and digits, separated by a dot, one or two underscores, or dashes.
fn is_component(component: &str) -> bool {
    let is_alphanumeric = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let ends = [component.as_bytes().first(), component.as_bytes().last()];
    let mut separators = component.split(|one: char| one.is_ascii_lowercase() || one.is_ascii_digit());
    ends.iter().all(|end| end.is_some_and(is_alphanumeric))
        && separators.all(|text| matches!(text, "" | "." | "_" | "__") || text.bytes().all(|byte| byte == b'-'))
}

fn is_tag(tag: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    tag.len() <= 128
        && tag.bytes().next().is_some_and(is_word)
        && tag.bytes().all(|byte| is_word(byte) || matches!(byte, b'.' | b'-'))
}

fn is_digest(digest: &str) -> bool {
    let is_algorithm = |name: &str| {
        let parts = |one: &str| one.starts_with(|first: char| first.is_ascii_alphabetic());
        name.split(['-', '_', '+', '.']).all(|one| parts(one) && one.bytes().all(|byte| byte.is_ascii_alphanumeric()))
    };
    let Some((algorithm, hash)) = digest.split_once(':') else { return false };
    is_algorithm(algorithm) && hash.len() >= 32 && hash.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_defaults() {
        let hash = "0123456789abcdef0123456789abcdef";
        for (image, full) in [
            ("nginx", "docker.io/library/nginx:latest".to_owned()),
            ("team/app:1.2", "docker.io/team/app:1.2".to_owned()),
            ("localhost/app", "localhost/app:latest".to_owned()),
            ("registry.local:5000/a/b_c/d--e:v1", "registry.local:5000/a/b_c/d--e:v1".to_owned()),
            (&format!("ghcr.io/a/b:v1@sha256:{hash}"), format!("ghcr.io/a/b@sha256:{hash}")),
        ] {
            assert_eq!(Reference::parse(image).unwrap().full_name(), full);
        }
        assert_eq!(Reference::parse("ghcr.io/org/httpd:2").unwrap().base_name(), "httpd");
    }

    #[test]
    fn malformed_names_are_rejected_in_the_words_of_a_kubelet() {
        for image in
            ["", "a b", "-a", "a-", "a//b", "a___b", "nginx:", "nginx:a b", "nginx:.1", "nginx@sha256:12", "a@b"]
        {
            let want = format!("couldn't parse image name {image:?}: invalid reference format");
            assert_eq!(Reference::parse(image).unwrap_err(), want);
        }
        let upper = Reference::parse("Nginx").unwrap_err();
        assert!(upper.ends_with("repository name (library/Nginx) must be lowercase"), "{upper}");
    }
}
