//! Validation of built-in kinds, with the messages of the real server.

use kubewright_core::Value;

use crate::client::{Client, server, text};

pub(crate) const CORE: &str = "/api/v1/namespaces/default";

/// The causes of a rejection, as `field: message`.
pub(crate) fn causes(refused: &Value) -> Vec<String> {
    let found = refused.get("details").and_then(|details| details.get("causes")).and_then(Value::as_array);
    let shown = |cause: &Value| format!("{}: {}", text(cause, "field"), text(cause, "message"));
    found.into_iter().flatten().map(shown).collect()
}

/// Dry-runs creations, and compares the causes of each rejection. No causes mean success.
pub(crate) async fn check(client: &mut Client, path: &str, kind: &str, table: &[(&str, &[&str])]) {
    let group = path.strip_prefix("/apis/").map(|rest| rest.split('/').take(2).collect::<Vec<_>>().join("/"));
    let api_version = group.unwrap_or_else(|| "v1".to_owned());
    for (content, want) in table {
        let object = format!(r#"{{"apiVersion":"{api_version}","kind":"{kind}","metadata":{{"name":"x"}},{content}}}"#);
        let (code, answer) = client.call("POST", &format!("{path}?dryRun=All"), &object).await;
        assert_eq!(causes(&answer), *want, "{kind} {content}: {answer}");
        assert_eq!(code, if want.is_empty() { 201 } else { 422 }, "{kind} {content}: {answer}");
    }
}

/// Creates an object, dry-runs a patch, and compares the causes. No causes mean success.
pub(crate) async fn check_change(client: &mut Client, path: &str, object: &str, patch: &str, want: &[&str]) {
    let (code, made) = client.call("POST", path, object).await;
    assert_eq!(code, 201, "{object}: {made}");
    let path = format!("{path}/{}", text(&made, "metadata/name"));
    let (code, answer) = client.call("PATCH", &format!("{path}?dryRun=All"), patch).await;
    assert_eq!(causes(&answer), *want, "{patch}: {answer}");
    assert_eq!(code, if want.is_empty() { 200 } else { 422 }, "{patch}: {answer}");
    client.call("DELETE", &format!("{path}?gracePeriodSeconds=0"), "").await;
}

#[tokio::test]
async fn containers_are_checked() {
    let (_server, mut client) = server().await;
    let pod = |container: &str| format!(r#""spec":{{"containers":[{{"name":"c","image":"i",{container}}}]}}"#);
    let table: [(&str, &[&str]); 14] = [
        (r#""ports":[{"containerPort":80,"name":"http"},{"containerPort":81,"name":"metrics"}]"#, &[]),
        (
            r#""ports":[{"containerPort":80,"name":"http"},{"containerPort":81,"name":"http"}]"#,
            &[r#"spec.containers[0].ports[1].name: Duplicate value: "http""#],
        ),
        (
            r#""ports":[{"containerPort":80,"name":"Not_A-Name-"}]"#,
            &[
                r#"spec.containers[0].ports[0].name: Invalid value: "Not_A-Name-": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"#,
                r#"spec.containers[0].ports[0].name: Invalid value: "Not_A-Name-": must not begin or end with a hyphen"#,
            ],
        ),
        (
            r#""ports":[{"containerPort":80,"hostPort":8080},{"containerPort":81,"hostPort":8080}]"#,
            &[r#"spec.containers[0].ports[1].hostPort: Duplicate value: "TCP//8080""#],
        ),
        (
            r#""resources":{"limits":{"gpu":"1","example.com/gpu":"500m","cpu":"1"},"requests":{"cpu":"2"}}"#,
            &[
                r#"spec.containers[0].resources.limits[example.com/gpu]: Invalid value: "500m": must be an integer"#,
                r#"spec.containers[0].resources.limits[gpu]: Invalid value: "gpu": must be a standard resource type or fully qualified"#,
                r#"spec.containers[0].resources.limits[gpu]: Invalid value: "gpu": must be a standard resource for containers"#,
                r#"spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1"#,
                r#"spec.containers[0].resources.requests[example.com/gpu]: Invalid value: "500m": must be an integer"#,
                r#"spec.containers[0].resources.requests[gpu]: Invalid value: "gpu": must be a standard resource type or fully qualified"#,
                r#"spec.containers[0].resources.requests[gpu]: Invalid value: "gpu": must be a standard resource for containers"#,
            ],
        ),
        (
            r#""livenessProbe":{"httpGet":{"port":0,"scheme":"FTP"},"successThreshold":2}"#,
            &[
                "spec.containers[0].livenessProbe.httpGet.port: Invalid value: 0: must be between 1 and 65535, inclusive",
                r#"spec.containers[0].livenessProbe.httpGet.scheme: Unsupported value: "FTP": supported values: "HTTP", "HTTPS""#,
                "spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1",
            ],
        ),
        (
            r#""readinessProbe":{"exec":{},"tcpSocket":{"port":80},"successThreshold":2}"#,
            &[
                "spec.containers[0].readinessProbe.exec.command: Required value",
                "spec.containers[0].readinessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type",
            ],
        ),
        (
            r#""lifecycle":{"preStop":{}}"#,
            &["spec.containers[0].lifecycle.preStop: Required value: must specify a handler type"],
        ),
        (
            r#""envFrom":[{"prefix":"A_"},{"configMapRef":{}}]"#,
            &[
                r#"spec.containers[0].envFrom: Invalid value: "": must specify one of: `configMapRef` or `secretRef`"#,
                "spec.containers[0].envFrom[1].configMapRef.name: Required value",
            ],
        ),
        (
            r#""env":[{"name":"A=B"}]"#,
            &[
                r#"spec.containers[0].env[0].name: Invalid value: "A=B": a valid environment variable name must consist only of printable ASCII characters other than '='"#,
            ],
        ),
        (
            r#""volumeMounts":[{"name":"v","mountPath":"/a"}]"#,
            &[r#"spec.containers[0].volumeMounts[0].name: Not found: "v""#],
        ),
        (
            r#""volumeMounts":[{"name":"v","mountPath":"/a","subPath":"../b"}]}],"volumes":[{"name":"v","emptyDir":{}}],"initContainers":[{"name":"i","image":"i""#,
            &[r#"spec.containers[0].volumeMounts.subPath: Invalid value: "../b": must not contain '..'"#],
        ),
        (
            r#""stdin":true}],"initContainers":[{"name":"i","image":"i","livenessProbe":{"exec":{"command":["a"]}}"#,
            &[
                "spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always",
            ],
        ),
        (
            r#""stdin":true}],"ephemeralContainers":[{"name":"e","image":"i""#,
            &["spec.ephemeralContainers: Forbidden: cannot be set on create"],
        ),
    ];
    for (container, want) in table {
        check(&mut client, &format!("{CORE}/pods"), "Pod", &[(&pod(container), want)]).await;
    }
}

#[tokio::test]
async fn pods_are_checked() {
    let (_server, mut client) = server().await;
    let pod = |spec: &str| format!(r#""spec":{{"containers":[{{"name":"c","image":"i"}}],{spec}}}"#);
    let table: [(&str, &[&str]); 6] = [
        (
            r#""volumes":[{"name":"a","configMap":{},"emptyDir":{}},{"name":"b","hostPath":{"path":"/a/../b","type":"Pipe"}}]"#,
            &[
                "spec.volumes[0].configMap: Forbidden: may not specify more than 1 volume type",
                r#"spec.volumes[1].hostPath.path: Invalid value: "/a/../b": must not contain '..'"#,
                r#"spec.volumes[1].hostPath.type: Unsupported value: "Pipe": supported values: "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket""#,
            ],
        ),
        (
            r#""volumes":[{"name":"a","persistentVolumeClaim":{"claimName":""}},{"name":"b","secret":{"secretName":"s","defaultMode":1024}}]"#,
            &[
                "spec.volumes[0].persistentVolumeClaim.claimName: Required value",
                "spec.volumes[1].secret.defaultMode: Invalid value: 1024: must be a number between 0 and 0777 (octal), both inclusive",
            ],
        ),
        (
            r#""activeDeadlineSeconds":0"#,
            &["spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"],
        ),
        (
            r#""tolerations":[{"operator":"Equal"},{"key":"a","operator":"Exists","effect":"NoSchedule","tolerationSeconds":1},{"key":"a","operator":"Near","effect":"Now"}]"#,
            &[
                r#"spec.tolerations[0].operator: Invalid value: "Equal": operator must be Exists when `key` is empty, which means "match all values and all keys""#,
                r#"spec.tolerations[1].effect: Invalid value: "NoSchedule": effect must be 'NoExecute' when `tolerationSeconds` is set"#,
                r#"spec.tolerations[2].operator: Unsupported value: "Near": supported values: "Equal", "Exists""#,
                r#"spec.tolerations[2].effect: Unsupported value: "Now": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute""#,
            ],
        ),
        (r#""hostname":"web","subdomain":"svc","nodeSelector":{"disk":"ssd"}"#, &[]),
        (
            r#""restartPolicy":"Sometimes""#,
            &[
                r#"spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never""#,
            ],
        ),
    ];
    for (spec, want) in table {
        check(&mut client, &format!("{CORE}/pods"), "Pod", &[(&pod(spec), want)]).await;
    }
}

#[tokio::test]
async fn services_are_checked() {
    let (_server, mut client) = server().await;
    let table: &[(&str, &[&str])] = &[
        (
            r#""spec":{"ports":[{"port":80,"nodePort":30001}]}"#,
            &["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
        ),
        (r#""spec":{"ports":[{"port":80},{"port":81,"name":"b"}]}"#, &["spec.ports[0].name: Required value"]),
        (
            r#""spec":{"type":"NodePort","clusterIP":"None","ports":[{"port":80}]}"#,
            &[r#"spec.clusterIPs[0]: Invalid value: "None": may not be set to 'None' for NodePort services"#],
        ),
        (
            r#""spec":{"type":"ExternalName","externalName":"not a name"}"#,
            &[
                r#"spec.externalName: Invalid value: "not a name": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"#,
            ],
        ),
        (
            r#""spec":{"ports":[{"port":80,"targetPort":"no_name"}],"sessionAffinity":"ClientIP","sessionAffinityConfig":{"clientIP":{"timeoutSeconds":0}}}"#,
            &[
                r#"spec.ports[0].targetPort: Invalid value: "no_name": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"#,
                "spec.sessionAffinityConfig.clientIP.timeoutSeconds: Invalid value: 0: must be greater than 0 and less than 86400",
            ],
        ),
    ];
    check(&mut client, &format!("{CORE}/services"), "Service", table).await;
}

#[tokio::test]
async fn a_service_may_change_its_type() {
    let (_server, mut client) = server().await;
    let path = format!("{CORE}/services");
    let service = r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"},"spec":{"type":"NodePort",
        "sessionAffinity":"ClientIP","ports":[{"port":80}]}}"#;
    let (code, made) = client.call("POST", &path, service).await;
    assert_eq!(code, 201, "{made}");
    assert!(text(&made, "spec/ports").contains("nodePort"), "{made}");
    let path = format!("{path}/s");
    let (code, plain) = client.call("PATCH", &path, r#"{"spec":{"type":"ClusterIP","sessionAffinity":"None"}}"#).await;
    assert_eq!(code, 200, "{plain}");
    assert!(!text(&plain, "spec/ports").contains("nodePort"), "{plain}");
    // A new violation is still rejected.
    let more = r#"{"spec":{"ports":[{"port":80,"nodePort":30123}]}}"#;
    let (code, refused) = client.call("PATCH", &path, more).await;
    let want = "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'";
    assert_eq!((code, causes(&refused)), (422, vec![want.to_owned()]));
    let (code, refused) = client.call("PATCH", &path, r#"{"spec":{"clusterIP":"192.0.2.99"}}"#).await;
    let want = r#"spec.clusterIPs[0]: Invalid value: ["192.0.2.99"]: may not change once set"#;
    assert_eq!((code, causes(&refused)), (422, vec![want.to_owned()]));
    let (code, name) = client.call("PATCH", &path, r#"{"spec":{"type":"ExternalName","externalName":"a.b"}}"#).await;
    assert_eq!((code, text(&name, "spec/clusterIP").as_str()), (200, ""), "{name}");
}

#[tokio::test]
async fn workloads_are_checked() {
    let (_server, mut client) = server().await;
    let deployment = |more: &str| {
        format!(
            r#""spec":{{"selector":{{"matchLabels":{{"a":"b"}}}},"template":{{"metadata":{{"labels":{{"a":"b"}}}},"spec":{{
            "containers":[{{"name":"c","image":"i"}}]}}}},{more}}}"#
        )
    };
    let path = "/apis/apps/v1/namespaces/default/deployments";
    let percent = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex \
                   used for validation is '[0-9]+%')";
    let wrong = format!(r#"spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "half": {percent}"#);
    let table: [(&str, &[&str]); 3] = [
        (r#""strategy":{"rollingUpdate":{"maxUnavailable":"half","maxSurge":1}}"#, &[&wrong]),
        (
            r#""strategy":{"rollingUpdate":{"maxUnavailable":"120%","maxSurge":1}}"#,
            &[r#"spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "120%": must not be greater than 100%"#],
        ),
        (
            r#""strategy":{"rollingUpdate":{"maxUnavailable":0,"maxSurge":0}}"#,
            &["spec.strategy.rollingUpdate.maxUnavailable: Invalid value: 0: may not be 0 when `maxSurge` is 0"],
        ),
    ];
    for (more, want) in table {
        check(&mut client, path, "Deployment", &[(&deployment(more), want)]).await;
    }
    let pods = r#""template":{"spec":{"restartPolicy":"OnFailure","containers":[{"name":"c","image":"i"}]}}"#;
    let job = |more: &str| format!(r#""spec":{{{pods},{more}}}"#);
    let table: [(&str, &[&str]); 4] = [
        (
            r#""completionMode":"Indexed","parallelism":2"#,
            &["spec.completions: Required value: when completion mode is Indexed"],
        ),
        (
            r#""backoffLimitPerIndex":1"#,
            &["spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode"],
        ),
        (r#""parallelism":-1"#, &["spec.parallelism: Invalid value: -1: must be greater than or equal to 0"]),
        (
            r#""podFailurePolicy":{"rules":[{"action":"Ignore","onPodConditions":[{"type":"DisruptionTarget","status":"True"}]}]}"#,
            &[
                r#"spec.template.spec.restartPolicy: Invalid value: "OnFailure": only "Never" is supported when podFailurePolicy is specified"#,
            ],
        ),
    ];
    for (more, want) in table {
        check(&mut client, "/apis/batch/v1/namespaces/default/jobs", "Job", &[(&job(more), want)]).await;
    }
    let cron = |schedule: &str| format!(r#""spec":{{"schedule":"{schedule}","jobTemplate":{{"spec":{{{pods}}}}}}}"#);
    for (schedule, want) in [
        ("*/5 * * * *", &[][..]),
        ("61 * * * *", &[r#"spec.schedule: Invalid value: "61 * * * *": end of range (61) above maximum (59): 61"#]),
        ("@never", &[r#"spec.schedule: Invalid value: "@never": unrecognized descriptor: @never"#]),
    ] {
        check(&mut client, "/apis/batch/v1/namespaces/default/cronjobs", "CronJob", &[(&cron(schedule), want)]).await;
    }
}

#[tokio::test]
async fn budgets_autoscalers_priorities_and_network_policies_are_checked() {
    let (_server, mut client) = server().await;
    let budgets: &[(&str, &[&str])] = &[
        (
            r#""spec":{"minAvailable":1,"maxUnavailable":"50%"}"#,
            &[
                r#"spec: Invalid value: {"MinAvailable":1,"Selector":null,"MaxUnavailable":"50%","UnhealthyPodEvictionPolicy":null}: minAvailable and maxUnavailable cannot be both set"#,
            ],
        ),
        (
            r#""spec":{"minAvailable":"101%"}"#,
            &[r#"spec.minAvailable: Invalid value: "101%": must not be greater than 100%"#],
        ),
    ];
    check(&mut client, "/apis/policy/v1/namespaces/default/poddisruptionbudgets", "PodDisruptionBudget", budgets).await;
    let scalers: &[(&str, &[&str])] = &[
        (
            r#""spec":{"minReplicas":3,"maxReplicas":2,"scaleTargetRef":{"kind":"Deployment","name":"a/b"}}"#,
            &[
                "spec.maxReplicas: Invalid value: 2: must be greater than or equal to `minReplicas`",
                r#"spec.scaleTargetRef.name: Invalid value: "a/b": may not contain '/'"#,
            ],
        ),
        (
            r#""spec":{"minReplicas":0,"maxReplicas":0,"scaleTargetRef":{"kind":"","name":"a"}}"#,
            &[
                "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1",
                "spec.maxReplicas: Invalid value: 0: must be greater than 0",
                "spec.scaleTargetRef.kind: Required value",
                "spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to zero replicas",
            ],
        ),
    ];
    let path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    check(&mut client, path, "HorizontalPodAutoscaler", scalers).await;
    let priorities: &[(&str, &[&str])] = &[
        (
            r#""value":1000000001"#,
            &["value: Forbidden: maximum allowed value of a user defined priority is 1000000000"],
        ),
        (
            r#""value":1,"preemptionPolicy":"Always""#,
            &[r#"preemptionPolicy: Unsupported value: "Always": supported values: "PreemptLowerPriority", "Never""#],
        ),
    ];
    check(&mut client, "/apis/scheduling.k8s.io/v1/priorityclasses", "PriorityClass", priorities).await;
    let networks: &[(&str, &[&str])] = &[
        (
            r#""spec":{"podSelector":{},"ingress":[{"from":[{}],"ports":[{"port":90,"endPort":80},{"endPort":1}]}]}"#,
            &[
                "spec.ingress[0].ports[0].endPort: Invalid value: 80: must be greater than or equal to `port`",
                "spec.ingress[0].ports[1].endPort: Invalid value: 1: may not be specified when `port` is not specified",
                "spec.ingress[0].from[0]: Required value: must specify a peer",
            ],
        ),
        (
            r#""spec":{"podSelector":{},"egress":[{"to":[{"ipBlock":{"cidr":"10.0.0.0/8","except":["10.1.0.0/16","11.0.0.0/16","x"]}}]}]}"#,
            &[
                r#"spec.egress[0].to[0].ipBlock.except[1]: Invalid value: "11.0.0.0/16": must be a strict subset of `cidr`"#,
                r#"spec.egress[0].to[0].ipBlock.except[2]: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"#,
            ],
        ),
    ];
    check(&mut client, "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies", "NetworkPolicy", networks)
        .await;
}

#[tokio::test]
async fn ranges_quotas_and_claims_are_checked() {
    let (_server, mut client) = server().await;
    let ranges: &[(&str, &[&str])] = &[
        (
            r#""spec":{"limits":[{"type":"Container","min":{"cpu":"2"},"max":{"cpu":"1"}},{"type":"Container"}]}"#,
            &[
                r#"spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1"#,
                r#"spec.limits[0].defaultRequest[cpu]: Invalid value: "1": min value 2 is greater than default request value 1"#,
                r#"spec.limits[0].default[cpu]: Invalid value: "2": min value 2 is greater than default value 1"#,
                r#"spec.limits[1].type: Duplicate value: "Container""#,
            ],
        ),
        (
            r#""spec":{"limits":[{"type":"Pod","default":{"cpu":"2"}},{"type":"Box"},{"type":"PersistentVolumeClaim"}]}"#,
            &[
                "spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'",
                r#"spec.limits[1].type: Invalid value: "Box": must be a standard limit type or fully qualified"#,
                "spec.limits[2].limits: Required value: either minimum or maximum storage value is required, but neither was provided",
            ],
        ),
    ];
    check(&mut client, &format!("{CORE}/limitranges"), "LimitRange", ranges).await;
    let quotas: &[(&str, &[&str])] = &[
        (r#""spec":{"hard":{"count/deployments.apps":"5","requests.cpu":"1","hugepages-2Mi":"4Mi"}}"#, &[]),
        (
            r#""spec":{"hard":{"pots":"1","pods":"1500m"}}"#,
            &[
                r#"spec.hard[pods]: Invalid value: "1500m": must be an integer"#,
                r#"spec.hard[pots]: Invalid value: "pots": must be a standard resource type or fully qualified"#,
                r#"spec.hard[pots]: Invalid value: "pots": must be a standard resource for quota"#,
            ],
        ),
        (
            r#""spec":{"hard":{"pods":"1"},"scopes":["BestEffort","NotBestEffort"]}"#,
            &[r#"spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]: conflicting scopes"#],
        ),
    ];
    check(&mut client, &format!("{CORE}/resourcequotas"), "ResourceQuota", quotas).await;
    let claims: &[(&str, &[&str])] = &[
        (
            r#""spec":{}"#,
            &[
                "spec.accessModes: Required value: at least 1 access mode is required",
                "spec.resources[storage]: Required value",
            ],
        ),
        (
            r#""spec":{"accessModes":["ReadWriteOncePod","ReadWriteOnce"],"resources":{"requests":{"storage":"0"}}}"#,
            &[
                "spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes",
                r#"spec.resources[storage]: Invalid value: "0": must be greater than zero"#,
            ],
        ),
    ];
    check(&mut client, &format!("{CORE}/persistentvolumeclaims"), "PersistentVolumeClaim", claims).await;
}

#[tokio::test]
async fn roles_and_bindings_are_checked() {
    let (_server, mut client) = server().await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let roles: &[(&str, &[&str])] = &[(
        r#""rules":[{"verbs":[],"resources":["pods"]},{"verbs":["get"],"nonResourceURLs":["/healthz"]}]"#,
        &[
            "rules[0].verbs: Required value: verbs must contain at least one value",
            "rules[0].apiGroups: Required value: resource rules must supply at least one api group",
            r#"rules[1].nonResourceURLs: Invalid value: ["/healthz"]: namespaced rules cannot apply to non-resource URLs"#,
        ],
    )];
    check(&mut client, &format!("{rbac}/namespaces/default/roles"), "Role", roles).await;
    let bindings: &[(&str, &[&str])] = &[(
        r#""roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"Role","name":"r"},"subjects":[{"kind":"ServiceAccount","name":"s"},{"kind":"Robot","name":"r"}]"#,
        &[
            r#"roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole""#,
            "subjects[0].namespace: Required value",
            r#"subjects[1].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group""#,
        ],
    )];
    check(&mut client, &format!("{rbac}/clusterrolebindings"), "ClusterRoleBinding", bindings).await;
}
