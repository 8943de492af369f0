//! Validation of status updates, with the messages of the real server.

use crate::access::request_and_certificate;
use crate::client::{Client, server, text};
use crate::validation::{CORE, causes, check};

/// Creates an object and merges each patch into its status. Successful patches are kept.
pub(crate) async fn check_steps(client: &mut Client, path: &str, object: &str, steps: &[(&str, &[&str])]) {
    let (code, made) = client.call("POST", path, object).await;
    assert_eq!(code, 201, "{object}: {made}");
    let path = format!("{path}/{}/status", text(&made, "metadata/name"));
    for (status, want) in steps {
        let (code, answer) = client.call("PATCH", &path, &format!(r#"{{"status":{status}}}"#)).await;
        assert_eq!(causes(&answer), *want, "{status}: {answer}");
        assert_eq!(code, if want.is_empty() { 200 } else { 422 }, "{status}: {answer}");
    }
}

fn pod(name: &str, spec: &str) -> String {
    format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}"}},"spec":{{"containers":[{{"name":"c","image":"i"}}]{spec}}}}}"#
    )
}

#[tokio::test]
async fn the_status_of_pods_is_checked() {
    let (_server, mut client) = server().await;
    let pods = format!("{CORE}/pods");
    let steps: &[(&str, &[&str])] = &[
        (
            r#"{"qosClass":"Burstable","nominatedNodeName":"A","observedGeneration":-1,"conditions":[{"type":"Ready","status":"True","observedGeneration":-2},{"type":"a b","status":"True"}]}"#,
            &[
                r#"status.conditions[0].observedGeneration: Invalid value: -2: must be a non-negative integer"#,
                r#"status.conditions[1].Type: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"#,
                r#"status.nominatedNodeName: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#,
                "status.observedGeneration: Invalid value: -1: must be a non-negative integer",
                r#"status.qosClass: Invalid value: "Burstable": field is immutable"#,
            ],
        ),
        // A client that does not know `qosClass` does not remove it.
        (r#"{"qosClass":null,"phase":"Running"}"#, &[]),
        (
            r#"{"podIP":"1.2.3.4","podIPs":[{"ip":"1.2.3.4"},{"ip":"1.2.3.5"}],"hostIP":"10.0.0.1","hostIPs":[{"ip":"10.0.0.2"},{"ip":"x"}]}"#,
            &[
                r#"status.podIPs: Invalid value: [{"IP":"1.2.3.4"},{"IP":"1.2.3.5"}]: may specify no more than one IP for each IP family"#,
                r#"status.hostIPs[0].ip: Invalid value: "10.0.0.2": must be equal to `hostIP`"#,
                r#"status.hostIPs[1]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"#,
                r#"status.hostIPs: Invalid value: [{"IP":"10.0.0.2"},{"IP":"x"}]: may specify no more than one IP for each IP family"#,
            ],
        ),
        (r#"{"podIPs":[{"ip":"1.2.3.4"},{"ip":"fd00::1"}],"hostIP":"10.0.0.1","hostIPs":[{"ip":"10.0.0.1"}]}"#, &[]),
        (
            r#"{"resourceClaimStatuses":[{"name":"gpu","resourceClaimName":"A_"}]}"#,
            &[
                r#"status.resourceClaimStatuses[0].name: Invalid value: "gpu": must match the name of an entry in `spec.resourceClaims`"#,
                r#"status.resourceClaimStatuses[0].name: Invalid value: "A_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#,
            ],
        ),
        (
            r#"{"containerStatuses":[{"name":"c","image":"i","imageID":"","ready":false,"restartCount":0,"user":{"linux":{"uid":-1,"gid":0,"supplementalGroups":[-5]}},"allocatedResourcesStatus":[{"name":"example.com/gpu","resources":[{"resourceID":"a","health":"Ill"},{"resourceID":"a","health":"Healthy"}]}]}]}"#,
            &[
                "status.containerStatuses[0].user.linux.uid: Invalid value: -1: must be between 0 and 2147483647, inclusive",
                "status.containerStatuses[0].user.linux.supplementalGroups[0]: Invalid value: -5: must be between 0 and 2147483647, inclusive",
                r#"status.containerStatuses[0].allocatedResourcesStatus[0].name: Invalid value: "example.com/gpu": must match one of the container's resource requests"#,
                r#"status.containerStatuses[0].allocatedResourcesStatus[0].resources[0].health: Unsupported value: "Ill": supported values: "Healthy", "Unhealthy", "Unknown""#,
                r#"status.containerStatuses[0].allocatedResourcesStatus[0].resources[1].resourceID: Duplicate value: "a""#,
            ],
        ),
        (
            r#"{"extendedResourceClaimStatus":{"requestMappings":[{"containerName":"d","resourceName":"r","requestName":"q"}],"resourceClaimName":""}}"#,
            &[
                r#"status.extendedResourceClaimStatus.requestMappings[0].containerName: Invalid value: "d": must match the name of an entry in spec.initContainers.name or spec.containers.name"#,
                "status.extendedResourceClaimStatus.resourceClaimName: Required value",
            ],
        ),
    ];
    check_steps(&mut client, &pods, &pod("a", ""), steps).await;
    let bound: &[(&str, &[&str])] = &[(
        r#"{"nominatedNodeName":"m"}"#,
        &["status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node"],
    )];
    check_steps(&mut client, &pods, &pod("b", r#","nodeName":"n""#), bound).await;
}

#[tokio::test]
async fn terminated_containers_restart_only_by_policy() {
    let (_server, mut client) = server().await;
    let pods = format!("{CORE}/pods");
    let statuses = |state: &str| {
        format!(
            r#"{{"containerStatuses":[{{"name":"c","image":"i","imageID":"","ready":false,"restartCount":0,"state":{state}}}]}}"#
        )
    };
    let (failed, done, running) = (
        statuses(r#"{"terminated":{"exitCode":3}}"#),
        statuses(r#"{"terminated":{"exitCode":0}}"#),
        statuses(r#"{"running":{}}"#),
    );
    let stays: &[&str] =
        &["status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"];
    for (policy, after_failure, after_success) in
        [("Always", &[][..], &[][..]), ("OnFailure", &[], stays), ("Never", stays, stays)]
    {
        let object =
            |end: &str| pod(&format!("{}-{end}", policy.to_lowercase()), &format!(r#","restartPolicy":"{policy}""#));
        check_steps(&mut client, &pods, &object("failed"), &[(&failed, &[]), (&running, after_failure)]).await;
        check_steps(&mut client, &pods, &object("done"), &[(&done, &[]), (&running, after_success)]).await;
    }
    // Container restart rules may allow more restarts than the pod's policy.
    let object = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"rules"},"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i",
        "restartPolicy":"Never","restartPolicyRules":[{"action":"Restart","exitCodes":{"operator":"In","values":[3]}}]}]}}"#;
    check_steps(&mut client, &pods, object, &[(&failed, &[]), (&running, &[]), (&done, &[]), (&running, stays)]).await;
}

#[tokio::test]
async fn the_status_of_workloads_is_checked() {
    let (_server, mut client) = server().await;
    let template = r#""selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    let object = |kind: &str, more: &str| {
        format!(r#"{{"apiVersion":"apps/v1","kind":"{kind}","metadata":{{"name":"w"}},"spec":{{{more}{template}}}}}"#)
    };
    let apps = "/apis/apps/v1/namespaces/default";
    let greater = |field: &str| format!("status.{field}: Invalid value: 3: cannot be greater than status.replicas");
    let [updated, ready, available, current, labelled] =
        ["updatedReplicas", "readyReplicas", "availableReplicas", "currentReplicas", "fullyLabeledReplicas"]
            .map(greater);
    let fewer = "status.collisionCount: Invalid value: 1: cannot be decremented";
    let deployment: &[(&str, &[&str])] = &[
        (
            r#"{"replicas":2,"updatedReplicas":3,"readyReplicas":3,"availableReplicas":3,"unavailableReplicas":-1,"terminatingReplicas":-2,"observedGeneration":-4,"collisionCount":-5}"#,
            &[
                "status.observedGeneration: Invalid value: -4: must be greater than or equal to 0",
                "status.unavailableReplicas: Invalid value: -1: must be greater than or equal to 0",
                "status.terminatingReplicas: Invalid value: -2: must be greater than or equal to 0",
                "status.collisionCount: Invalid value: -5: must be greater than or equal to 0",
                &updated,
                &ready,
                &available,
                "status.collisionCount: Invalid value: -5: cannot be decremented",
            ],
        ),
        (r#"{"collisionCount":2}"#, &[]),
        (r#"{"collisionCount":1}"#, &[fewer]),
    ];
    check_steps(&mut client, &format!("{apps}/deployments"), &object("Deployment", ""), deployment).await;
    let set: &[(&str, &[&str])] = &[
        (r#"{"replicas":2,"fullyLabeledReplicas":3,"readyReplicas":3}"#, &[&labelled, &ready]),
        (
            r#"{"replicas":3,"readyReplicas":1,"availableReplicas":2}"#,
            &["status.availableReplicas: Invalid value: 2: cannot be greater than readyReplicas"],
        ),
    ];
    check_steps(&mut client, &format!("{apps}/replicasets"), &object("ReplicaSet", ""), set).await;
    let stateful: &[(&str, &[&str])] = &[
        (
            r#"{"replicas":2,"currentReplicas":3,"updatedReplicas":3,"availableReplicas":1}"#,
            &[
                &current,
                &updated,
                "status.availableReplicas: Invalid value: 1: cannot be greater than status.readyReplicas",
            ],
        ),
        (r#"{"replicas":0,"availableReplicas":0,"collisionCount":2}"#, &[]),
        (r#"{"replicas":0,"collisionCount":1}"#, &[fewer]),
    ];
    check_steps(
        &mut client,
        &format!("{apps}/statefulsets"),
        &object("StatefulSet", r#""serviceName":"s","#),
        stateful,
    )
    .await;
}

#[tokio::test]
async fn the_status_of_other_kinds_is_checked() {
    let (_server, mut client) = server().await;
    let namespace: &[(&str, &[&str])] = &[(
        r#"{"phase":"Terminating"}"#,
        &[r#"status.Phase: Invalid value: "Terminating": may only be 'Active' if `deletionTimestamp` is empty"#],
    )];
    let object = r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"n"}}"#;
    check_steps(&mut client, "/api/v1/namespaces", object, namespace).await;

    let quota: &[(&str, &[&str])] = &[(
        r#"{"hard":{"apples":"1"},"used":{"pods":"500m","cpu":"-1"}}"#,
        &[
            r#"status.hard[apples]: Invalid value: "apples": must be a standard resource type or fully qualified"#,
            r#"status.hard[apples]: Invalid value: "apples": must be a standard resource for quota"#,
            r#"status.used[cpu]: Invalid value: "-1": must be greater than or equal to 0"#,
            r#"status.used[pods]: Invalid value: "500m": must be an integer"#,
        ],
    )];
    let object = r#"{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"q"},"spec":{"hard":{"pods":"1"}}}"#;
    check_steps(&mut client, &format!("{CORE}/resourcequotas"), object, quota).await;

    let ways = r#"{"loadBalancer":{"ingress":[{"ip":"1.2.3"},{"hostname":"10.0.0.1"}]}}"#;
    let ingress: &[(&str, &[&str])] = &[(
        ways,
        &[
            r#"status.loadBalancer.ingress[0].ip: Invalid value: "1.2.3": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"#,
            r#"status.loadBalancer.ingress[1].hostname: Invalid value: "10.0.0.1": must be a DNS name, not an IP address"#,
        ],
    )];
    let object = r#"{"apiVersion":"networking.k8s.io/v1","kind":"Ingress","metadata":{"name":"i"},"spec":{"defaultBackend":{"service":{"name":"s","port":{"number":80}}}}}"#;
    check_steps(&mut client, "/apis/networking.k8s.io/v1/namespaces/default/ingresses", object, ingress).await;

    let level: &[(&str, &[&str])] = &[(
        r#"{"conditions":[{"type":"A"},{"type":"A"},{"type":""}]}"#,
        &[
            r#"status.conditions[1].type: Duplicate value: "A""#,
            "status.conditions[2].type: Required value: must not be empty",
        ],
    )];
    let object = r#"{"apiVersion":"flowcontrol.apiserver.k8s.io/v1","kind":"PriorityLevelConfiguration","metadata":{"name":"l"},"spec":{"type":"Limited","limited":{"nominalConcurrencyShares":1,"limitResponse":{"type":"Reject"}}}}"#;
    let levels = "/apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations";
    check_steps(&mut client, levels, object, level).await;

    let policy: &[(&str, &[&str])] = &[(
        r#"{"typeChecking":{"expressionWarnings":[{"fieldRef":" ","warning":""},{"fieldRef":"spec.validations[0].expression","warning":"w"}]},"conditions":[{"type":"A","status":"Maybe","reason":"","lastTransitionTime":"2026-01-01T00:00:00Z","message":""}]}"#,
        &[
            "status.typeChecking.expressionWarnings[0].warning: Required value",
            "status.typeChecking.expressionWarnings[0].fieldRef: Required value",
            r#"status.conditions[0].status: Unsupported value: "Maybe": supported values: "False", "True", "Unknown""#,
            "status.conditions[0].reason: Required value",
        ],
    )];
    let object = r#"{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingAdmissionPolicy","metadata":{"name":"p"},"spec":{"matchConstraints":{"resourceRules":[{"apiGroups":["x"],"apiVersions":["*"],"operations":["*"],"resources":["*"]}]},"validations":[{"expression":"true"}]}}"#;
    let policies = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
    check_steps(&mut client, policies, object, policy).await;

    let definition: &[(&str, &[&str])] = &[(
        r#"{"acceptedNames":{"plural":"as","kind":"A","listKind":"A","categories":["B!"]}}"#,
        &[
            r#"status.acceptedNames.listKind: Invalid value: "A": kind and listKind may not be the same"#,
            r#"status.acceptedNames.categories[0]: Invalid value: "B!": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')"#,
        ],
    )];
    let object = r#"{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"as.example.com"},"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"as","kind":"A"},"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object"}}}]}}"#;
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    check_steps(&mut client, definitions, object, definition).await;
}

#[tokio::test]
async fn approval_and_signing_are_separate() {
    let (_server, mut client) = server().await;
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let [request, certificate] = request_and_certificate();
    let broken =
        r#""spec":{"request":"LS0t","signerName":"a/b/c","usages":["any","any","fun"],"expirationSeconds":599}"#;
    let want: &[&str] = &[
        r#"spec.request: Invalid value: "LS0t": PEM block type must be CERTIFICATE REQUEST"#,
        r#"spec.usages[2]: Unsupported value: "fun": supported values: "any", "cert sign", "client auth", "code signing", "content commitment", "crl sign", "data encipherment", "decipher only", "digital signature", "email protection", "encipher only", "ipsec end system", "ipsec tunnel", "ipsec user", "key agreement", "key encipherment", "microsoft sgc", "netscape sgc", "ocsp signing", "s/mime", "server auth", "signing", "timestamping""#,
        r#"spec.usages[1]: Duplicate value: "any""#,
        r#"spec.signerName: Invalid value: "a/b/c": must be a fully qualified domain and path of the form 'example.com/signer-name'"#,
        "spec.expirationSeconds: Invalid value: 599: may not specify a duration less than 600 seconds (10 minutes)",
    ];
    let signer = format!(r#""spec":{{"request":"{request}","signerName":"a/B","usages":["any"]}}"#);
    let alone: &[&str] = &[
        r#"spec.signerName: Invalid value: "a": should be a domain with at least two segments separated by dots"#,
        r#"spec.signerName: Invalid value: "B": validating label "B": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#,
    ];
    check(&mut client, requests, "CertificateSigningRequest", &[(broken, want), (&signer, alone)]).await;

    let object = format!(
        r#"{{"apiVersion":"certificates.k8s.io/v1","kind":"CertificateSigningRequest","metadata":{{"name":"r"}},"spec":{{"request":"{request}","signerName":"example.com/s","usages":["any"]}}}}"#
    );
    let (code, made) = client.call("POST", requests, &object).await;
    assert_eq!(code, 201, "{made}");
    let signed = format!(r#"{{"certificate":"{certificate}"}}"#);
    // Each step is a subresource, a status patch and the expected causes.
    let steps: &[(&str, &str, &[&str])] = &[
        (
            "status",
            r#"{"conditions":[{"type":"Approved","status":"True"}],"certificate":"LS0t"}"#,
            &[
                r#"status.certificate: Invalid value: "<certificate data>": must contain at least one CERTIFICATE PEM block"#,
                r#"status.conditions: Forbidden: updates may not add a condition of type "Approved""#,
            ],
        ),
        (
            "approval",
            r#"{"conditions":[{"type":"Approved","status":"False"},{"type":"Denied","status":"True"},{"type":"Mood"},{"type":"Mood","status":"Good"}]}"#,
            &[
                r#"status.conditions[0].status: Unsupported value: "False": supported values: "True""#,
                r#"status.conditions: Invalid value: "Denied": Approved and Denied conditions are mutually exclusive"#,
                "status.conditions[2].status: Required value",
                r#"status.conditions[3].status: Unsupported value: "Good": supported values: "False", "True", "Unknown""#,
                r#"status.conditions[3].type: Duplicate value: "Mood""#,
            ],
        ),
        ("approval", r#"{"conditions":[{"type":"Approved","status":"True"}]}"#, &[]),
        // The status subresource cannot change the decision.
        ("status", r#"{"conditions":[{"type":"Approved","status":"True","reason":"Because"}]}"#, &[]),
        (
            "approval",
            r#"{"conditions":[]}"#,
            &[r#"status.conditions: Forbidden: updates may not remove a condition of type "Approved""#],
        ),
        // The approval subresource changes conditions only.
        ("approval", &signed, &[]),
        ("status", &signed, &[]),
        (
            "status",
            r#"{"certificate":null}"#,
            &["status.certificate: Forbidden: updates may not modify existing certificate content"],
        ),
    ];
    for (part, status, want) in steps {
        let (_, answer) =
            client.call("PATCH", &format!("{requests}/r/{part}"), &format!(r#"{{"status":{status}}}"#)).await;
        assert_eq!(causes(&answer), *want, "{part} {status}: {answer}");
        if part == &"approval" && want.is_empty() {
            assert_eq!(text(&answer, "status/certificate"), "", "{answer}");
        }
    }
    let (_, request) = client.call("GET", &format!("{requests}/r"), "").await;
    assert_eq!(text(&request, "status/certificate"), certificate);
    assert!(!text(&request, "status/conditions").contains("Because"), "{request}");
}
