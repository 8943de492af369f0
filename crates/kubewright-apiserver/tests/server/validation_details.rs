//! Validation of rarely used fields, including values that are accepted.

use crate::client::{server, text};
use crate::validation::{CORE, causes, check, check_change};

const APPS: &str = "/apis/apps/v1/namespaces/default";
const LABEL: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')";
const LABEL_VALUE: &str = "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";

#[tokio::test]
async fn container_restart_rules_are_validated() {
    let (_server, mut client) = server().await;
    let rule = r#"[{"action":"Restart","exitCodes":{"operator":"In","values":[3]}}]"#;
    let pod = |field: &str, container: &str| {
        let more = format!(r#"{{"name":"x","image":"i",{container}}}"#);
        match field {
            "containers" => format!(r#""spec":{{"containers":[{more}]}}"#),
            _ => format!(r#""spec":{{"containers":[{{"name":"c","image":"i"}}],"initContainers":[{more}]}}"#),
        }
    };
    for list in ["containers", "initContainers"] {
        let at = |rest: &str| format!("spec.{list}[0].{rest}");
        let table: [(String, Vec<String>); 5] = [
            (format!(r#""restartPolicy":"Never","restartPolicyRules":{rule}"#), vec![]),
            (r#""restartPolicy":"OnFailure""#.to_owned(), vec![]),
            (
                r#""restartPolicy":"Sometimes""#.to_owned(),
                vec![at(r#"restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "Never", "OnFailure""#)],
            ),
            (
                format!(r#""restartPolicyRules":{rule}"#),
                vec![at("restartPolicy: Required value: must specify restartPolicy when restart rules are used")],
            ),
            (
                r#""restartPolicy":"Never","restartPolicyRules":[{"action":"Stop","exitCodes":{"operator":"Equals"}},{"action":"RestartAllContainers"}]"#.to_owned(),
                vec![
                    at(r#"restartPolicyRules[0].action: Unsupported value: "Stop": supported values: "Restart", "RestartAllContainers""#),
                    at(r#"restartPolicyRules[0].exitCodes.operator: Unsupported value: "Equals": supported values: "In", "NotIn""#),
                    at("restartPolicyRules[1].exitCodes: Required value: must be specified"),
                ],
            ),
        ];
        for (container, want) in table {
            let want: Vec<&str> = want.iter().map(String::as_str).collect();
            check(&mut client, &format!("{CORE}/pods"), "Pod", &[(&pod(list, &container), &want)]).await;
        }
    }
}

#[tokio::test]
async fn details_of_containers_are_checked() {
    let (_server, mut client) = server().await;
    let pod = |container: &str| format!(r#""spec":{{"containers":[{{"name":"c","image":"i",{container}}}]}}"#);
    let volume = format!(r#"spec.containers[0].env[0].valueFrom.fileKeyRef.volumeName: Invalid value: "a/b": {LABEL}"#);
    let table: &[(&str, &[&str])] = &[
        (r#""resources":{"limits":{"cpu":"1","hugepages-2Mi":"0"}}"#, &[]),
        (
            r#""resources":{"limits":{"cpu":"1","hugepages-x":"1"},"requests":{"hugepages-x":"1"}}"#,
            &[
                r#"spec.containers[0].resources.limits[hugepages-x]: Invalid value: "1": 1 is not positive integer multiple of hugepages-x"#,
                r#"spec.containers[0].resources.requests[hugepages-x]: Invalid value: "1": 1 is not positive integer multiple of hugepages-x"#,
            ],
        ),
        (
            r#""env":[{"name":"A","valueFrom":{"fieldRef":{"apiVersion":"v2","fieldPath":"metadata.name"}}}]"#,
            &[
                r#"spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value: "metadata.name": error converting fieldPath: unsupported pod version: v2"#,
            ],
        ),
        (r#""env":[{"name":"A","valueFrom":{"fileKeyRef":{"volumeName":"v","path":"a.env","key":"A"}}}]"#, &[]),
        (
            r#""env":[{"name":"A","valueFrom":{"fileKeyRef":{"volumeName":"a/b","path":"../a","key":""}}}]"#,
            &[
                "spec.containers[0].env[0].valueFrom.fileKeyRef.key: Required value",
                &volume,
                r#"spec.containers[0].env[0].valueFrom.fileKeyRef.path: Invalid value: "../a": must not contain '..'"#,
            ],
        ),
    ];
    for (container, want) in table {
        check(&mut client, &format!("{CORE}/pods"), "Pod", &[(&pod(container), want)]).await;
    }
}

#[tokio::test]
async fn details_of_pods_are_checked() {
    let (_server, mut client) = server().await;
    let pod = |spec: &str| {
        format!(r#""spec":{{{spec},"containers":[{{"name":"c","image":"i","resources":{{"limits":{{"cpu":"2"}}}}}}]}}"#)
    };
    let node = format!(
        r#"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0].matchExpressions[0].values[0]: Invalid value: "a b": {LABEL_VALUE}"#
    );
    let table: &[(&str, &[&str])] = &[
        (
            r#""volumes":[{"name":"v","emptyDir":{},"image":{"reference":"i"}}]"#,
            &["spec.volumes[0].image: Forbidden: may not specify more than 1 volume type"],
        ),
        (
            r#""hostNetwork":true,"hostnameOverride":"web.example","setHostnameAsFQDN":true"#,
            &[
                "spec.hostnameOverride: Forbidden: may not be specified when hostNetwork is true",
                "spec.setHostnameAsFQDN: Forbidden: may not be true when hostnameOverride is specified",
            ],
        ),
        (
            r#""affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[{"matchExpressions":[{"key":"k","operator":"In","values":["a b"]}]}]}}}"#,
            &[&node],
        ),
        (
            r#""affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1,"preference":{"matchExpressions":[{"key":"k","operator":"In","values":["a b"]}]}}]}}"#,
            &[],
        ),
        (
            r#""resources":{"requests":{"cpu":"1"},"limits":{"cpu":"1","nvidia.com/gpu":"1"}}"#,
            &[
                r#"spec.resources.limits[nvidia.com/gpu]: Unsupported value: "nvidia.com/gpu": supported values: "cpu", "hugepages-", "memory""#,
                r#"spec.resources.requests[cpu]: Invalid value: "1": must be greater than or equal to aggregate container requests of 2"#,
                r#"spec.resources.containers[0][cpu].limits: Invalid value: "2": must be less than or equal to pod limits of 1"#,
            ],
        ),
        (r#""resources":{"limits":{"cpu":"3","memory":"1Gi"}}"#, &[]),
    ];
    for (spec, want) in table {
        check(&mut client, &format!("{CORE}/pods"), "Pod", &[(&pod(spec), want)]).await;
    }
    // Once resolved, a key must not be repeated.
    let twice = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","labels":{"v":"1"}},"spec":{"containers":[{"name":"c","image":"i"}],
        "topologySpreadConstraints":[{"maxSkew":1,"topologyKey":"z","whenUnsatisfiable":"DoNotSchedule","labelSelector":{"matchLabels":{"v":"1"}},"matchLabelKeys":["v"]}]}}"#;
    let (code, answer) = client.call("POST", &format!("{CORE}/pods"), twice).await;
    let want =
        r#"spec.topologySpreadConstraints[0][0]: Invalid value: "v": exists in both matchLabelKeys and labelSelector"#;
    assert_eq!((code, causes(&answer)), (422, vec![want.to_owned()]), "{answer}");
    // A name prefix may end with a dash, but not with a dot.
    for (prefix, want) in [("web-", 201), ("web--", 201), ("web.", 422), ("-", 422)] {
        let pod = format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"generateName":"{prefix}"}},"spec":{{"containers":[{{"name":"c","image":"i"}}]}}}}"#
        );
        let (code, answer) = client.call("POST", &format!("{CORE}/pods"), &pod).await;
        assert_eq!(code, want, "{prefix}: {answer}");
    }
}

#[tokio::test]
async fn stateful_sets_are_checked_as_a_whole() {
    let (_server, mut client) = server().await;
    let path = format!("{APPS}/statefulsets");
    let set = |container: &str, more: &str| {
        format!(
            r#""spec":{{"selector":{{"matchLabels":{{"a":"b"}}}},"template":{{"metadata":{{"labels":{{"a":"b"}}}},"spec":{{"containers":[{{"name":"c"{container}}}]}}}}{more}}}"#
        )
    };
    let mounted = r#","image":"i","volumeMounts":[{"name":"data","mountPath":"/d"}]"#;
    let service = format!(r#"spec.serviceName: Invalid value: "My_Service": {LABEL}"#);
    let table: [(String, &[&str]); 4] = [
        (set("", ""), &["spec.template.spec.containers[0].image: Required value"]),
        (set(mounted, ""), &[r#"spec.template.spec.containers[0].volumeMounts[0].name: Not found: "data""#]),
        (
            set(mounted, r#","volumeClaimTemplates":[{"metadata":{"name":"data"},"spec":{}}]"#),
            &[
                "spec.volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 access mode is required",
                "spec.volumeClaimTemplates[0].spec.resources[storage]: Required value",
            ],
        ),
        (set(r#","image":"i""#, r#","serviceName":"My_Service""#), &[&service]),
    ];
    for (content, want) in &table {
        check(&mut client, &path, "StatefulSet", &[(content, want)]).await;
    }
    // A claim replaces a volume of the same name.
    let claim = r#"{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}"#;
    let both = set(mounted, &format!(r#","volumeClaimTemplates":[{{"metadata":{{"name":"data"}},"spec":{claim}}}]"#))
        .replace(r#""spec":{"containers""#, r#""spec":{"volumes":[{"name":"data","emptyDir":{}}],"containers""#);
    check(&mut client, &path, "StatefulSet", &[(&both, &[])]).await;
    let good = format!(
        r#"{{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{{"name":"s"}},{}}}"#,
        set(r#","image":"i""#, "")
    );
    let wrong = r#"{"spec":{"template":{"spec":{"containers":[{"name":"c","image":""}]}}}}"#;
    let want = ["spec.template.spec.containers[0].image: Required value"];
    check_change(&mut client, &path, &good, wrong, &want).await;
    let revisions: &[(&str, &[&str])] = &[
        (r#""revision":1,"data":{"a":1}"#, &[]),
        (r#""revision":1,"data":[1]"#, &["data: Required value: data must be a valid JSON object"]),
    ];
    check(&mut client, &format!("{APPS}/controllerrevisions"), "ControllerRevision", revisions).await;
}

#[tokio::test]
async fn services_are_single_stack() {
    let (_server, mut client) = server().await;
    let service = |more: &str| format!(r#""spec":{{"selector":{{"a":"b"}},"ports":[{{"port":80}}],{more}}}"#);
    let table: &[(&str, &[&str])] = &[
        (r#""ipFamilyPolicy":"PreferDualStack""#, &[]),
        (
            r#""ipFamilyPolicy":"RequireDualStack""#,
            &[
                r#"spec.ipFamilyPolicy: Invalid value: "RequireDualStack": this cluster is not configured for dual-stack services"#,
            ],
        ),
        (
            r#""ipFamilyPolicy":"PreferDualStack","ipFamilies":["IPv4","IPv6"]"#,
            &[r#"spec.ipFamilies[1]: Invalid value: "IPv6": not configured on this cluster"#],
        ),
        (
            r#""ipFamilies":["IPv4","IPv6"]"#,
            &[
                r#"spec.ipFamilyPolicy: Invalid value: "SingleStack": must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified"#,
            ],
        ),
        (r#""ipFamilies":["IPv6"]"#, &[r#"spec.ipFamilies[0]: Invalid value: "IPv6": not configured on this cluster"#]),
    ];
    for (more, want) in table {
        check(&mut client, &format!("{CORE}/services"), "Service", &[(&service(more), want)]).await;
    }
    let headless = r#"{"apiVersion":"v1","kind":"Service","metadata":{"name":"h"},"spec":{"clusterIP":"None","ports":[{"port":80}]}}"#;
    check_change(&mut client, &format!("{CORE}/services"), headless, r#"{"spec":{"sessionAffinity":"ClientIP"}}"#, &[])
        .await;
    check_change(
        &mut client,
        &format!("{CORE}/services"),
        headless,
        r#"{"spec":{"ipFamilyPolicy":"SingleStack"}}"#,
        &[],
    )
    .await;
}

#[tokio::test]
async fn in_place_resize_of_a_running_pod_is_validated() {
    let (_server, mut client) = server().await;
    let pods = format!("{CORE}/pods");
    let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{
        "containers":[{"name":"c","image":"i","resources":{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"500m","memory":"1Gi"}}}],
        "initContainers":[{"name":"side","image":"i","restartPolicy":"Always","resources":{"requests":{"cpu":"100m"}}},{"name":"before","image":"i","resources":{"requests":{"cpu":"100m"}}}]}}"#;
    let (code, made) = client.call("POST", &pods, pod).await;
    assert_eq!(code, 201, "{made}");
    let change = |list: &str, containers: &str| format!(r#"{{"spec":{{"{list}":[{containers}]}}}}"#);
    let of = |name: &str, resources: &str| {
        format!(r#"{{"name":"{name}","image":"i","restartPolicy":"Always","resources":{resources}}}"#)
    };
    let table: [(String, &[&str]); 5] = [
        (
            change(
                "containers",
                r#"{"name":"c","image":"i","resources":{"limits":{"cpu":"1"},"requests":{"cpu":"500m","memory":"1Gi"}}}"#,
            ),
            &["spec.containers[0].resources.limits: Forbidden: resource limits cannot be removed"],
        ),
        (
            change(
                "containers",
                r#"{"name":"c","image":"i","resources":{"limits":{"cpu":"1","memory":"1Gi"},"requests":{"cpu":"500m","memory":"1Gi","ephemeral-storage":"1Gi"}}}"#,
            ),
            &["spec: Forbidden: only cpu and memory resources are mutable"],
        ),
        (
            change(
                "initContainers",
                &format!(
                    "{},{}",
                    of("side", r#"{"requests":{"cpu":"200m"}}"#),
                    of("before", r#"{"requests":{"cpu":"100m"}}"#)
                ),
            ),
            &[],
        ),
        (
            change(
                "initContainers",
                &format!("{},{}", of("side", "{}"), of("before", r#"{"requests":{"cpu":"100m"}}"#)),
            ),
            &["spec.initContainers[0].resources.requests: Forbidden: resource requests cannot be removed"],
        ),
        (
            change(
                "initContainers",
                &format!(
                    "{},{}",
                    of("side", r#"{"requests":{"cpu":"100m"}}"#),
                    of("before", r#"{"requests":{"cpu":"300m"}}"#)
                ),
            ),
            &["spec.initContainers[1].resources: Forbidden: resources for non-sidecar init containers are immutable"],
        ),
    ];
    for (patch, want) in &table {
        let (code, answer) = client.call("PATCH", &format!("{pods}/p/resize?dryRun=All"), patch).await;
        assert_eq!(causes(&answer), *want, "{patch}: {answer}");
        assert_eq!(code, if want.is_empty() { 200 } else { 422 }, "{patch}: {answer}");
    }
    let (_, resized) = client.call("PATCH", &format!("{pods}/p/resize?dryRun=All"), &table[2].0).await;
    assert!(text(&resized, "spec/initContainers").contains(r#""cpu":"200m""#), "{resized}");
}
