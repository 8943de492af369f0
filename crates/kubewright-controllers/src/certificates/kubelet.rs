//! Rules for the certificates of kubelets: who they name, and what they are used for.

use kubewright_core::Str;
use rcgen::{CertificateSigningRequestParams, DnType, DnValue, SanType};

use super::{CLIENT_AUTH, DIGITAL_SIGNATURE, KEY_ENCIPHERMENT, SERVER_AUTH};

/// The organization of kubelets.
const NODES: &str = "system:nodes";
/// The common name is this prefix and the name of the node.
const NODE: &str = "system:node:";

/// Checks a request for the client certificate of a kubelet. Returns the first problem.
#[doc(alias = "ValidateKubeletClientCSR")]
pub(super) fn check_client(request: &CertificateSigningRequestParams, usages: &[Str]) -> Result<(), String> {
    check_organization(request)?;
    for name in &request.params.subject_alt_names {
        let kind = match name {
            SanType::DnsName(_) => "DNS",
            SanType::Rfc822Name(_) => "Email",
            SanType::IpAddress(_) => "IP",
            SanType::URI(_) => "URI",
            _ => continue,
        };
        return Err(format!("{kind} subjectAltNames are not allowed"));
    }
    check_usages(usages, CLIENT_AUTH)?;
    check_common_name(request)
}

/// Checks a request for the serving certificate of a kubelet. Returns the first problem.
#[doc(alias = "ValidateKubeletServingCSR")]
pub(super) fn check_serving(request: &CertificateSigningRequestParams, usages: &[Str]) -> Result<(), String> {
    check_organization(request)?;
    let names = &request.params.subject_alt_names;
    if !names.iter().any(|name| matches!(name, SanType::DnsName(_) | SanType::IpAddress(_))) {
        return Err("DNS or IP subjectAltName is required".to_owned());
    }
    if names.iter().any(|name| matches!(name, SanType::Rfc822Name(_))) {
        return Err("Email subjectAltNames are not allowed".to_owned());
    }
    if names.iter().any(|name| matches!(name, SanType::URI(_))) {
        return Err("URI subjectAltNames are not allowed".to_owned());
    }
    check_usages(usages, SERVER_AUTH)?;
    check_common_name(request)
}

/// The common name of the subject; empty if there is none.
pub(super) fn common_name(request: &CertificateSigningRequestParams) -> String {
    attributes(request, &DnType::CommonName).pop().unwrap_or_default()
}

fn check_organization(request: &CertificateSigningRequestParams) -> Result<(), String> {
    if attributes(request, &DnType::OrganizationName) == [NODES] {
        return Ok(());
    }
    Err("subject organization is not system:nodes".to_owned())
}

fn check_common_name(request: &CertificateSigningRequestParams) -> Result<(), String> {
    if common_name(request).starts_with(NODE) {
        return Ok(());
    }
    Err("subject common name does not begin with system:node:".to_owned())
}

/// The usages must be exactly the signature, this purpose, and optionally key encipherment, which
/// only RSA keys support.
fn check_usages(usages: &[Str], purpose: &str) -> Result<(), String> {
    let has = |usage: &str| usages.iter().any(|have| have == usage);
    let is_known = |usage: &Str| [DIGITAL_SIGNATURE, KEY_ENCIPHERMENT, purpose].contains(&usage.as_str());
    if has(DIGITAL_SIGNATURE) && has(purpose) && usages.iter().all(is_known) {
        return Ok(());
    }
    let mut required = [purpose, DIGITAL_SIGNATURE, KEY_ENCIPHERMENT];
    required.sort_unstable();
    Err(format!("usages did not match [{}]", required.join(" ")))
}

/// All attributes of this type in the subject.
fn attributes(request: &CertificateSigningRequestParams, kind: &DnType) -> Vec<String> {
    let attributes = request.params.distinguished_name.iter().filter(|(have, _)| *have == kind);
    attributes.map(|(_, value)| text(value)).collect()
}

fn text(value: &DnValue) -> String {
    match value {
        DnValue::Utf8String(text) => text.clone(),
        DnValue::PrintableString(text) => text.as_str().to_owned(),
        DnValue::Ia5String(text) => text.as_str().to_owned(),
        DnValue::TeletexString(text) => text.as_str().to_owned(),
        // No Kubernetes identity is written in these encodings.
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, KeyPair};

    use super::*;

    fn request(common_name: &str, organization: &str, names: &[&str]) -> CertificateSigningRequestParams {
        let mut params =
            CertificateParams::new(names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>()).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, common_name);
        params.distinguished_name.push(DnType::OrganizationName, organization);
        let pem = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
        CertificateSigningRequestParams::from_pem(&pem).unwrap()
    }

    fn usages(list: &[&str]) -> Vec<Str> {
        list.iter().copied().map(Str::from).collect()
    }

    #[test]
    fn a_client_certificate_names_a_node_and_no_hosts() {
        let client = usages(&[DIGITAL_SIGNATURE, CLIENT_AUTH]);
        let check = |request, usages: &[Str]| check_client(&request, usages).err().unwrap_or_default();
        assert_eq!(check(request("system:node:a", NODES, &[]), &client), "");
        assert_eq!(check(request("system:node:a", "people", &[]), &client), "subject organization is not system:nodes");
        assert_eq!(
            check(request("system:node:a", NODES, &["a.example"]), &client),
            "DNS subjectAltNames are not allowed"
        );
        let other = "subject common name does not begin with system:node:";
        assert_eq!(check(request("jane", NODES, &[]), &client), other);
        let server = usages(&[DIGITAL_SIGNATURE, SERVER_AUTH]);
        let wrong = "usages did not match [client auth digital signature key encipherment]";
        assert_eq!(check(request("system:node:a", NODES, &[]), &server), wrong);
    }

    #[test]
    fn a_serving_certificate_needs_a_host() {
        let server = usages(&[DIGITAL_SIGNATURE, KEY_ENCIPHERMENT, SERVER_AUTH]);
        assert!(check_serving(&request("system:node:a", NODES, &["10.0.0.1"]), &server).is_ok());
        let without = check_serving(&request("system:node:a", NODES, &[]), &server);
        assert_eq!(without.unwrap_err(), "DNS or IP subjectAltName is required");
    }
}
