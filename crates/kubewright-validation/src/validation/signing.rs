//! Validates CertificateSigningRequests.

use std::collections::HashSet;

use kubewright_api::certificates::v1::CertificateSigningRequestSpec;
use kubewright_core::message::Message;
use kubewright_core::meta::v1::StatusCause;
use kubewright_core::validation::{dns1123_label, dns1123_subdomain};
use kubewright_core::{ByteString, Value, tree};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, CertificateSigningRequestDer};

use super::metadata::quoted;
use super::{number, text};
use crate::Part;

/// Conditions whose status must be `True`.
const DECISIONS: [&str; 3] = ["Approved", "Denied", "Failed"];
/// Maximum lengths of the signer's domain and of the whole signer name, in bytes.
const DOMAIN_MAX: usize = 253;
const SIGNER_MAX: usize = DOMAIN_MAX + 1 + 253 + 63 + 1;
/// Minimum certificate lifetime, in seconds.
const LIFE_MIN: i64 = 600;

/// Validates a request. Values that were already invalid are accepted.
pub(super) fn request(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let nothing = Value::default();
    let spec = value.get("spec").unwrap_or(&nothing);
    let mut causes = Vec::new();
    if let Some(why) = request_complaint(&bytes(spec, &["request"])) {
        causes.push(StatusCause::invalid("spec.request", quoted(tree::text(spec, &["request"])), why));
    }
    let usages = tree::items(spec, &["usages"]);
    if usages.is_empty() {
        causes.push(StatusCause::required("spec.usages", ""));
    }
    if old.is_none() {
        let texts: Vec<&str> = usages.iter().filter_map(Value::as_str).collect();
        // The OpenAPI enum lists the known usages.
        let known = CertificateSigningRequestSpec::default()
            .scheme()
            .field("usages")
            .map_or(&[][..], |field| field.rules.item_values);
        let unknown = texts.iter().enumerate();
        causes.extend(unknown.filter_map(|(at, usage)| number::one_of(format!("spec.usages[{at}]"), usage, known)));
        let mut seen = HashSet::new();
        let repeated = (0..texts.len()).filter(|at| !seen.insert(texts[*at]));
        causes.extend(repeated.map(|at| StatusCause::duplicate(format!("spec.usages[{at}]"), quoted(texts[at]))));
    }
    causes.extend(signer(tree::text(spec, &["signerName"])));
    if let Some(life) = tree::int(spec, &["expirationSeconds"]).filter(|life| *life < LIFE_MIN) {
        let why = "may not specify a duration less than 600 seconds (10 minutes)";
        causes.push(StatusCause::invalid("spec.expirationSeconds", life, why));
    }
    causes.extend(conditions(value, old));
    let certificate = |request: &Value| bytes(request, &["status", "certificate"]);
    let is_exempt = old
        .map(certificate)
        .is_some_and(|before| before == certificate(value) || certificate_complaint(&before).is_some());
    if let Some(why) = certificate_complaint(&certificate(value)).filter(|_| !is_exempt) {
        causes.push(StatusCause::invalid("status.certificate", "\"<certificate data>\"", &why));
    }
    causes
}

/// Validates an update. The approval subresource sets conditions only; the status subresource sets
/// the certificate.
pub(super) fn update(value: &Value, old: &Value, part: Part) -> Vec<StatusCause> {
    const FIELD: &str = "status.conditions";
    let of = |request: &Value, kind: &str| -> Vec<Value> {
        let all = tree::items(request, &["status", "conditions"]).iter();
        all.filter(|one| tree::text(one, &["type"]) == kind).cloned().collect()
    };
    let mut causes = request(value, Some(old));
    for kind in DECISIONS.iter().filter(|kind| of(value, kind).len() < of(old, kind).len()) {
        let why = format!("updates may not remove a condition of type {kind:?}");
        causes.push(StatusCause::forbidden(FIELD, &why));
    }
    for kind in DECISIONS[..2].iter().filter(|_| part != Part::Approval) {
        let (now, before) = (of(value, kind), of(old, kind));
        let change = match now.len().cmp(&before.len()) {
            std::cmp::Ordering::Greater => "add",
            std::cmp::Ordering::Equal if now != before => "modify",
            _ => continue,
        };
        causes.push(StatusCause::forbidden(FIELD, &format!("updates may not {change} a condition of type {kind:?}")));
    }
    let [now, before] = [value, old].map(|request| bytes(request, &["status", "certificate"]));
    if now != before {
        let why = match part {
            Part::Status if before.is_empty() => return causes,
            Part::Status => "updates may not modify existing certificate content",
            _ => "updates may not set certificate content",
        };
        causes.push(StatusCause::forbidden("status.certificate", why));
    }
    causes
}

/// Validates conditions: unique types, and not both approved and denied.
fn conditions(value: &Value, old: Option<&Value>) -> Vec<StatusCause> {
    let kinds = |request: &Value| -> Vec<String> {
        let all = tree::items(request, &["status", "conditions"]).iter();
        all.map(|one| tree::text(one, &["type"]).to_owned()).collect()
    };
    let (all, before) = (kinds(value), old.map(kinds).unwrap_or_default());
    let has = |kinds: &[String], kind: &str| kinds.iter().any(|one| one == kind);
    let had_both = has(&before, "Approved") && has(&before, "Denied");
    let was_repeated = before.iter().collect::<HashSet<_>>().len() < before.len();
    let mut seen: HashSet<&str> = HashSet::new();
    let mut causes = Vec::new();
    for (index, condition) in tree::items(value, &["status", "conditions"]).iter().enumerate() {
        let (field, kind) = (format!("status.conditions[{index}]"), all[index].as_str());
        if kind.is_empty() && !has(&before, "") {
            causes.push(StatusCause::required(format!("{field}.type"), ""));
        }
        let allowed: &[&str] = if DECISIONS.contains(&kind) { &["True"] } else { &["False", "True", "Unknown"] };
        causes.extend(text::choice(&format!("{field}.status"), tree::text(condition, &["status"]), allowed));
        let other = match kind {
            "Approved" => "Denied",
            "Denied" => "Approved",
            _ => "\0",
        };
        if !had_both && seen.contains(other) {
            let why = "Approved and Denied conditions are mutually exclusive";
            causes.push(StatusCause::invalid("status.conditions", quoted(kind), why));
        }
        if !seen.insert(kind) && !was_repeated {
            causes.push(StatusCause::duplicate(format!("{field}.type"), quoted(kind)));
        }
    }
    causes
}

/// Validates a signer name such as `example.com/signer`.
fn signer(name: &str) -> Vec<StatusCause> {
    const FIELD: &str = "spec.signerName";
    if name == "kubernetes.io/legacy-unknown" {
        let why = "the legacy signerName is not allowed via this API version";
        return vec![StatusCause::invalid(FIELD, quoted(name), why)];
    }
    if name.is_empty() {
        return vec![StatusCause::required(FIELD, "")];
    }
    let parts: Vec<&str> = name.split('/').collect();
    let [domain, path] = parts[..] else {
        let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
        return vec![StatusCause::invalid(FIELD, quoted(name), why)];
    };
    let mut causes = Vec::new();
    // Report only the first invalid label.
    let labels = |part: &str, rule: fn(&str) -> Vec<String>| -> Vec<StatusCause> {
        let wrong = part.split('.').map(|label| (label, rule(label))).find(|(_, complaints)| !complaints.is_empty());
        let complaints = wrong.into_iter().flat_map(|(label, all)| all.into_iter().map(move |why| (label, why)));
        let shown = complaints.map(|(label, why)| format!("validating label {label:?}: {why}"));
        shown.map(|why| StatusCause::invalid(FIELD, quoted(part), &why)).collect()
    };
    if domain.len() > DOMAIN_MAX {
        causes.push(StatusCause::too_long(FIELD, DOMAIN_MAX));
    }
    causes.extend(labels(domain, dns1123_label));
    if !domain.contains('.') {
        let why = "should be a domain with at least two segments separated by dots";
        causes.push(StatusCause::invalid(FIELD, quoted(domain), why));
    }
    causes.extend(labels(path, dns1123_subdomain));
    if name.len() > SIGNER_MAX {
        causes.push(StatusCause::too_long(FIELD, SIGNER_MAX));
    }
    causes
}

fn bytes(value: &Value, path: &[&str]) -> Vec<u8> {
    ByteString::from_base64(tree::text(value, path).as_bytes()).map(|bytes| bytes.to_vec()).unwrap_or_default()
}

/// The types of all PEM blocks.
fn block_types(pem: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(pem);
    let begins = text.lines().filter_map(|line| line.trim_end().strip_prefix("-----BEGIN ")?.strip_suffix("-----"));
    begins.map(str::to_owned).collect()
}

fn request_complaint(pem: &[u8]) -> Option<&'static str> {
    if block_types(pem).first().is_none_or(|kind| kind != "CERTIFICATE REQUEST") {
        return Some("PEM block type must be CERTIFICATE REQUEST");
    }
    let request = CertificateSigningRequestDer::from_pem_slice(pem).ok();
    request.is_none_or(|request| !is_one_sequence(&request)).then_some("asn1: structure error")
}

fn certificate_complaint(pem: &[u8]) -> Option<String> {
    if pem.is_empty() {
        return None;
    }
    let kinds = block_types(pem);
    if let Some(kind) = kinds.iter().find(|kind| *kind != "CERTIFICATE") {
        return Some(format!("only CERTIFICATE PEM blocks are allowed, found {kind:?}"));
    }
    let certificates: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    match certificates {
        _ if kinds.is_empty() => Some("must contain at least one CERTIFICATE PEM block".to_owned()),
        Ok(all) if all.len() == kinds.len() && all.iter().all(|one| is_one_sequence(one)) => None,
        _ => Some("x509: malformed certificate".to_owned()),
    }
}

/// Whether the bytes are exactly one DER sequence, as in certificates and certificate requests.
fn is_one_sequence(der: &[u8]) -> bool {
    const SEQUENCE: u8 = 0x30;
    let [SEQUENCE, first, rest @ ..] = der else { return false };
    let (length, content) = match usize::from(*first) {
        short @ ..0x80 => (short, rest),
        long => match rest.split_at_checked(long & 0x7f) {
            Some((digits @ ([] | [_] | [_, _] | [_, _, _] | [_, _, _, _]), content)) => {
                (digits.iter().fold(0, |length, &digit| length << 8 | usize::from(digit)), content)
            }
            _ => return false,
        },
    };
    length > 0 && content.len() == length
}
