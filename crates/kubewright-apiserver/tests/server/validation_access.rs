//! Validation of roles, webhooks, policies, APIServices, ingresses and quotas, with the messages of
//! the real server.

use crate::client::{server, text};
use crate::validation::{CORE, causes, check, check_change};

const ADMISSION: &str = "/apis/admissionregistration.k8s.io/v1";
const LABEL_RULE: &str = "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an \
    alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for \
    validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

#[tokio::test]
async fn roles_with_names_and_aggregation_are_validated() {
    let (_server, mut client) = server().await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let roles: &[(&str, &[&str])] = &[
        (
            r#""rules":[{"verbs":["get"],"apiGroups":[""],"resources":["configmaps","secrets"],"resourceNames":["a"]}]"#,
            &[],
        ),
        (r#""aggregationRule":{"clusterRoleSelectors":[{"matchLabels":{"a":"b"}}]}"#, &[]),
        (
            r#""aggregationRule":{}"#,
            &[
                "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil",
            ],
        ),
        (
            r#""aggregationRule":{"clusterRoleSelectors":[{"matchExpressions":[{"key":"a","operator":"In"}]}]}"#,
            &[
                "aggregationRule.clusterRoleSelectors[0].matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
                "aggregationRule.clusterRoleSelectors[0]: Invalid value: null: invalid label selector.",
            ],
        ),
    ];
    check(&mut client, &format!("{rbac}/clusterroles"), "ClusterRole", roles).await;
}

#[tokio::test]
async fn webhooks_are_checked() {
    let (_server, mut client) = server().await;
    let webhook = |rest: &str| {
        format!(
            r#""webhooks":[{{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],"clientConfig":{{"url":"https://a"}}{rest}}}]"#
        )
    };
    let rule = |rest: &str| {
        webhook(&format!(r#","rules":[{{"operations":["*"],"apiGroups":[""],"apiVersions":["v1"]{rest}}}]"#))
    };
    let both = format!("{},{}", webhook("").trim_end_matches(']'), webhook("").trim_start_matches(r#""webhooks":["#));
    let wrong_version = format!(r#"webhooks[0].admissionReviewVersions[0]: Invalid value: "2": {LABEL_RULE}"#);
    let table: &[(&str, &[&str])] = &[
        (&rule(r#","resources":["pods","pods/*","*/scale"]"#), &[]),
        (
            &rule(r#","resources":["*","pods","pods/*","pods/status",""],"scope":"Here""#),
            &[
                r#"webhooks[0].rules[0].resources[3]: Invalid value: "pods/status": if 'pods/*' is present, must not specify pods/status"#,
                "webhooks[0].rules[0].resources[4]: Required value",
                r#"webhooks[0].rules[0].resources: Invalid value: ["*","pods","pods/*","pods/status",""]: if '*' is present, must not specify other resources without subresources"#,
                r#"webhooks[0].rules[0].scope: Unsupported value: "Here": supported values: "*", "Cluster", "Namespaced""#,
            ],
        ),
        (
            &webhook(r#","rules":[{"operations":["*","READ"],"apiVersions":["*",""]}]"#),
            &[
                r#"webhooks[0].rules[0].operations: Invalid value: ["*","READ"]: if '*' is present, must not specify other operations"#,
                r#"webhooks[0].rules[0].operations[1]: Unsupported value: "READ": supported values: "*", "CONNECT", "CREATE", "DELETE", "UPDATE""#,
                "webhooks[0].rules[0].apiGroups: Required value",
                r#"webhooks[0].rules[0].apiVersions: Invalid value: ["*",""]: if '*' is present, must not specify other API versions"#,
                "webhooks[0].rules[0].apiVersions[1]: Required value",
                "webhooks[0].rules[0].resources: Required value",
            ],
        ),
        (
            &webhook(
                r#","failurePolicy":"Maybe","matchPolicy":"Some","namespaceSelector":{"matchLabels":{"a b":"c"}}"#,
            ),
            &[
                r#"webhooks[0].failurePolicy: Unsupported value: "Maybe": supported values: "Fail", "Ignore""#,
                r#"webhooks[0].matchPolicy: Unsupported value: "Some": supported values: "Equivalent", "Exact""#,
                r#"webhooks[0].namespaceSelector.matchLabels: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"#,
            ],
        ),
        (
            r#""webhooks":[{"name":"A","sideEffects":"Some","admissionReviewVersions":["2","2"],"clientConfig":{"url":"http://u@/p?q#f"}}]"#,
            &[
                r#"webhooks[0].name: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#,
                r#"webhooks[0].sideEffects: Unsupported value: "Some": supported values: "None", "NoneOnDryRun""#,
                r#"webhooks[0].clientConfig.url: Invalid value: "http": 'https' is the only allowed URL scheme; desired format: https://host[/path]"#,
                r#"webhooks[0].clientConfig.url: Invalid value: "": host must be specified; desired format: https://host[/path]"#,
                r#"webhooks[0].clientConfig.url: Invalid value: "u": user information is not permitted in the URL"#,
                r#"webhooks[0].clientConfig.url: Invalid value: "f": fragments are not permitted in the URL"#,
                r#"webhooks[0].clientConfig.url: Invalid value: "q": query parameters are not permitted in the URL"#,
                &wrong_version,
                r#"webhooks[0].admissionReviewVersions[1]: Invalid value: "2": duplicate version"#,
                r#"webhooks[0].admissionReviewVersions: Invalid value: ["2","2"]: must include at least one of v1, v1beta1"#,
            ],
        ),
        (
            &webhook("").replace(r#""url":"https://a""#, r#""service":{"name":"s","path":"a//B","port":70000}"#),
            // The real server confuses the two field names.
            &[
                "webhooks[0].clientConfig.service.name: Required value",
                "webhooks[0].clientConfig.service.port: Invalid value: 70000: port is not valid: must be between 1 and 65535, inclusive",
                r#"webhooks[0].clientConfig.service.path: Invalid value: "a//B": must start with a '/'"#,
                r#"webhooks[0].clientConfig.service.path: Invalid value: "a//B": segment[0] may not be empty"#,
                r#"webhooks[0].clientConfig.service.path: Invalid value: "a//B": segment[1] may not be empty"#,
                r#"webhooks[0].clientConfig.service.path: Invalid value: "a//B": segment[2]: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#,
            ],
        ),
        (&both, &[r#"webhooks[1].name: Duplicate value: "a.example.com""#]),
        (
            &webhook(
                r#","matchConditions":[{"name":"a","expression":"true"},{"name":"a","expression":" "},{"expression":"true"}]"#,
            ),
            &[
                "webhooks[0].matchConditions[1].expression: Required value",
                r#"webhooks[0].matchConditions[1].name: Duplicate value: "a""#,
                "webhooks[0].matchConditions[2].name: Required value",
            ],
        ),
    ];
    let path = format!("{ADMISSION}/validatingwebhookconfigurations");
    check(&mut client, &path, "ValidatingWebhookConfiguration", table).await;
    let mutating: &[(&str, &[&str])] = &[(
        &webhook(r#","reinvocationPolicy":"Always""#),
        &[r#"webhooks[0].reinvocationPolicy: Unsupported value: "Always": supported values: "IfNeeded", "Never""#],
    )];
    let path = format!("{ADMISSION}/mutatingwebhookconfigurations");
    check(&mut client, &path, "MutatingWebhookConfiguration", mutating).await;
}

#[tokio::test]
async fn policies_and_their_bindings_are_checked() {
    let (_server, mut client) = server().await;
    let rules =
        r#""resourceRules":[{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["pods"]}]"#;
    let policy = |rest: &str| format!(r#""spec":{{"matchConstraints":{{{rules}}}{rest}}}"#);
    let wrong_kind = format!(
        r#"spec.paramKind.kind: Invalid value: "A B": may have mixed case, but should otherwise match: {LABEL_RULE}"#
    );
    let table: &[(&str, &[&str])] = &[
        (&policy(r#","validations":[{"expression":"true","message":"no"}]"#), &[]),
        (
            r#""spec":{"failurePolicy":"Maybe"}"#,
            &[
                r#"spec.failurePolicy: Unsupported value: "Maybe": supported values: "Fail", "Ignore""#,
                "spec.matchConstraints: Required value",
                "spec.validations: Required value: validations or auditAnnotations must contain at least one item",
                "spec.auditAnnotations: Required value: validations or auditAnnotations must contain at least one item",
            ],
        ),
        (
            &policy(
                r#","paramKind":{"apiVersion":"a/b/c","kind":"A B"},"variables":[{"name":"in","expression":"1"}],"validations":[{"expression":"true","message":" ","messageExpression":" ","reason":"Bored"}]"#,
            ),
            &[
                r#"spec.paramKind.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c"#,
                &wrong_kind,
                r#"spec.variables[0].name: Invalid value: "in": name is not a valid CEL identifier"#,
                r#"spec.validations[0].messageExpression: Invalid value: " ": must be non-empty if specified"#,
                r#"spec.validations[0].message: Invalid value: " ": message must be non-empty if specified"#,
                r#"spec.validations[0].reason: Unsupported value: "Bored": supported values: "Forbidden", "Invalid", "RequestEntityTooLarge""#,
            ],
        ),
        (
            &policy(r#","auditAnnotations":[{"key":"k","valueExpression":"'v'"},{"key":"k","valueExpression":""}]"#),
            &[
                "spec.auditAnnotations[1].valueExpression: Required value: valueExpression is not specified",
                r#"spec.auditAnnotations[1].key: Duplicate value: "k""#,
            ],
        ),
    ];
    check(&mut client, &format!("{ADMISSION}/validatingadmissionpolicies"), "ValidatingAdmissionPolicy", table).await;
    let bindings: &[(&str, &[&str])] = &[
        (
            r#""spec":{"policyName":"p","paramRef":{"name":"n","selector":{}},"matchResources":{"matchPolicy":"Some"}}"#,
            &[
                "spec.paramRef.name: Forbidden: name and selector are mutually exclusive",
                "spec.paramRef.selector: Forbidden: name and selector are mutually exclusive",
                "spec.paramRef.parameterNotFoundAction: Required value",
                r#"spec.matchResources.matchPolicy: Unsupported value: "Some": supported values: "Equivalent", "Exact""#,
            ],
        ),
        (
            r#""spec":{"paramRef":{"parameterNotFoundAction":"Cry"}}"#,
            &[
                "spec.policyName: Required value",
                "spec.paramRef: Required value: one of name or selector must be specified",
                r#"spec.paramRef.parameterNotFoundAction: Unsupported value: "Cry": supported values: "Deny", "Allow""#,
            ],
        ),
    ];
    let path = format!("{ADMISSION}/mutatingadmissionpolicybindings");
    check(&mut client, &path, "MutatingAdmissionPolicyBinding", bindings).await;
    let actions: &[(&str, &[&str])] = &[(
        r#""spec":{"policyName":"p","validationActions":["Deny","Deny","Cry"]}"#,
        &[
            r#"spec.validationActions[1]: Duplicate value: "Deny""#,
            r#"spec.validationActions[2]: Unsupported value: "Cry": supported values: "Audit", "Deny", "Warn""#,
        ],
    )];
    let path = format!("{ADMISSION}/validatingadmissionpolicybindings");
    check(&mut client, &path, "ValidatingAdmissionPolicyBinding", actions).await;
}

#[tokio::test]
async fn policies_that_change_objects_get_their_defaults() {
    let (_server, mut client) = server().await;
    let policy = r#"{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingAdmissionPolicy","metadata":{"name":"p"},"spec":{"reinvocationPolicy":"Never","matchConstraints":{"resourceRules":[{"operations":["CREATE"],"apiGroups":[""],"apiVersions":["v1"],"resources":["pods"]}]},"mutations":[{"patchType":"JSONPatch","jsonPatch":{"expression":"[]"}}]}}"#;
    let (code, made) = client.call("POST", &format!("{ADMISSION}/mutatingadmissionpolicies"), policy).await;
    assert_eq!(code, 201, "{made}");
    let found = ["failurePolicy", "matchConstraints/matchPolicy", "matchConstraints/objectSelector"];
    assert_eq!(found.map(|path| text(&made, &format!("spec/{path}"))), ["Fail", "Equivalent", "{}"], "{made}");
}

#[tokio::test]
async fn services_of_the_api_are_checked() {
    let (_server, mut client) = server().await;
    let wrong_version = format!(r#"spec.version: Invalid value: "2": {LABEL_RULE}"#);
    let table: &[(&str, &[&str])] = &[(
        r#""spec":{"version":"2","groupPriorityMinimum":20001,"service":{"port":0},"insecureSkipTLSVerify":true,"caBundle":"YQ=="}"#,
        &[
            r#"metadata.name: Invalid value: "x": must be `spec.version+"."+spec.group`: "2.""#,
            "spec.group: Required value: only v1 may have an empty group and it better be legacy kube",
            &wrong_version,
            "spec.groupPriorityMinimum: Invalid value: 20001: must be positive and less than 20000",
            "spec.versionPriority: Invalid value: 0: must be positive and less than 1000",
            "spec.service.namespace: Required value",
            "spec.service.name: Required value",
            "spec.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive",
            "spec.insecureSkipTLSVerify: Invalid value: true: may not be true if caBundle is present",
        ],
    )];
    check(&mut client, "/apis/apiregistration.k8s.io/v1/apiservices", "APIService", table).await;
}

#[tokio::test]
async fn ingresses_are_checked() {
    let (_server, mut client) = server().await;
    let spec = |rest: &str| {
        format!(r#""spec":{{"defaultBackend":{{"service":{{"name":"s","port":{{"number":80}}}}}}{rest}}}"#)
    };
    let path = "/apis/networking.k8s.io/v1/namespaces/default/ingresses";
    let wildcard = r"a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character (e.g. '*.example.com', regex used for validation is '\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    let subdomain = r"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";
    let table: &[(&str, &[&str])] = &[
        (&spec(r#","rules":[{"host":"*.a.b"}],"tls":[{"hosts":["*.a.b","1.2.3.4"],"secretName":"s"}]"#), &[]),
        (
            &spec(
                r#","rules":[{"host":"a.*.b"},{"host":"1.2.3.4"}],"tls":[{"hosts":["*a"],"secretName":"S"}],"ingressClassName":"C""#,
            ),
            &[
                &format!(r#"spec.rules[0].host: Invalid value: "a.*.b": {wildcard}"#),
                r#"spec.rules[1].host: Invalid value: "1.2.3.4": must be a DNS name, not an IP address"#,
                &format!(r#"spec.tls[0].hosts[0]: Invalid value: "*a": {wildcard}"#),
                &format!(r#"spec.tls[0].secretName: Invalid value: "S": {subdomain}"#),
                &format!(r#"spec.ingressClassName: Invalid value: "C": {subdomain}"#),
            ],
        ),
        (
            &spec(r#","rules":[{"http":{"paths":[{"path":"/","backend":{}}]}}]"#),
            &["spec.rules[0].http.paths[0].pathType: Required value: pathType must be specified"],
        ),
    ];
    check(&mut client, path, "Ingress", table).await;
    let classes = r#""metadata":{"name":"x","annotations":{"kubernetes.io/ingress.class":"old"}}"#;
    let object = format!(
        r#"{{"apiVersion":"networking.k8s.io/v1","kind":"Ingress",{classes},{}}}"#,
        spec(r#","ingressClassName":"c""#)
    );
    let (code, refused) = client.call("POST", path, &object).await;
    let why = r#"annotations.kubernetes.io/ingress.class: Invalid value: "old": must match `ingressClassName` when both are specified"#;
    assert_eq!((code, causes(&refused)), (422, vec![why.to_owned()]), "{refused}");
    let (code, taken) = client.call("POST", &format!("{path}?dryRun=All"), &object.replace("old", "c")).await;
    assert_eq!(code, 201, "{taken}");
    // An ingress with one of them can get the other.
    let object = format!(r#"{{"apiVersion":"networking.k8s.io/v1","kind":"Ingress",{classes},{}}}"#, spec(""));
    check_change(&mut client, path, &object, r#"{"spec":{"ingressClassName":"c"}}"#, &[]).await;
}

#[tokio::test]
async fn some_names_only_need_to_be_path_segments() {
    let (_server, mut client) = server().await;
    for (path, object) in [
        (
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
            r#""apiVersion":"policy/v1","kind":"PodDisruptionBudget""#,
        ),
        (&format!("{CORE}/events"), r#""apiVersion":"v1","kind":"Event","involvedObject":{"namespace":"default"}"#),
    ] {
        let made = client.call("POST", path, &format!(r#"{{{object},"metadata":{{"name":"My_Own:Name"}}}}"#)).await;
        assert_eq!(made.0, 201, "{path}: {}", made.1);
        let (code, refused) = client.call("POST", path, &format!(r#"{{{object},"metadata":{{"name":"a%b"}}}}"#)).await;
        let why = r#"metadata.name: Invalid value: "a%b": may not contain '%'"#;
        assert_eq!((code, causes(&refused)), (422, vec![why.to_owned()]), "{path}: {refused}");
    }
}

#[tokio::test]
async fn limits_and_quotas_are_validated() {
    let (_server, mut client) = server().await;
    let ranges: &[(&str, &[&str])] = &[
        (
            // The maximum becomes the default limit and request.
            r#""spec":{"limits":[{"type":"Container","max":{"storage":"1"},"default":{"example.com/gpu":"2"},"defaultRequest":{"example.com/gpu":"1"}}]}"#,
            &[
                r#"spec.limits[0].max[storage]: Invalid value: "storage": must be a standard resource for containers"#,
                r#"spec.limits[0].default[storage]: Invalid value: "storage": must be a standard resource for containers"#,
                r#"spec.limits[0].defaultRequest[storage]: Invalid value: "storage": must be a standard resource for containers"#,
                r#"spec.limits[0].defaultRequest[example.com/gpu]: Invalid value: "1": default value 2 must equal to defaultRequest value 1 in example.com/gpu"#,
            ],
        ),
        (
            r#""spec":{"limits":[{"type":"PersistentVolumeClaim","max":{"storage":"2","size":"1"}},{"type":"Pod","min":{"cpu":"500m"},"max":{"cpu":"1"},"maxLimitRequestRatio":{"cpu":"3"}}]}"#,
            &[
                r#"spec.limits[0].max[size]: Invalid value: "size": must be a standard resource type or fully qualified"#,
                r#"spec.limits[1].maxLimitRequestRatio[cpu]: Invalid value: "3": ratio 3 is greater than max/min = 2.000000"#,
            ],
        ),
        // These amounts would overflow in thousandths.
        (
            r#""spec":{"limits":[{"type":"Pod","min":{"memory":"4Pi"},"max":{"memory":"16Pi"},"maxLimitRequestRatio":{"memory":"3"}}]}"#,
            &[],
        ),
    ];
    check(&mut client, &format!("{CORE}/limitranges"), "LimitRange", ranges).await;
    let chosen =
        |rest: &str| format!(r#""spec":{{"hard":{{"pods":"1"}},"scopeSelector":{{"matchExpressions":[{{{rest}}}]}}}}"#);
    let field = "spec.scopeSelector.matchExpressions";
    let quotas: &[(&str, &[&str])] = &[
        (&chosen(r#""scopeName":"PriorityClass","operator":"In","values":["high"]"#), &[]),
        (
            r#""spec":{"hard":{"persistentvolumeclaims":"1"},"scopeSelector":{"matchExpressions":[{"scopeName":"VolumeAttributesClass","operator":"In","values":["fast"]}]}}"#,
            &[],
        ),
        (
            &chosen(r#""scopeName":"BestEffort","operator":"In""#),
            &[
                &format!(
                    r#"{field}.operator: Invalid value: "In": must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"#
                ),
                &format!(
                    "{field}.values: Required value: must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                ),
            ],
        ),
        (
            &chosen(r#""scopeName":"PriorityClass","operator":"Exists","values":["high"]"#),
            &[&format!(
                r#"{field}.values: Invalid value: ["high"]: must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"#
            )],
        ),
    ];
    check(&mut client, &format!("{CORE}/resourcequotas"), "ResourceQuota", quotas).await;
    // Scopes are a set.
    let quota = r#"{"apiVersion":"v1","kind":"ResourceQuota","metadata":{"name":"q"},"spec":{"hard":{"pods":"1"},"scopes":["BestEffort","Terminating"]}}"#;
    let path = format!("{CORE}/resourcequotas");
    check_change(&mut client, &path, quota, r#"{"spec":{"scopes":["Terminating","BestEffort"]}}"#, &[]).await;
}

#[tokio::test]
async fn required_secret_keys_must_not_be_empty() {
    let (_server, mut client) = server().await;
    let table: &[(&str, &[&str])] = &[(
        r#""type":"kubernetes.io/ssh-auth","data":{"ssh-privatekey":""}"#,
        &["data[ssh-privatekey]: Required value"],
    )];
    check(&mut client, &format!("{CORE}/secrets"), "Secret", table).await;
}

#[tokio::test]
async fn missing_labels_are_shown_as_null() {
    let (_server, mut client) = server().await;
    let table: &[(&str, &[&str])] = &[(
        r#""spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"spec":{"containers":[{"name":"c","image":"i"}]}}}"#,
        &["spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`"],
    )];
    check(&mut client, "/apis/apps/v1/namespaces/default/deployments", "Deployment", table).await;
}
