//! Validation of pods and pod templates.

use crate::client::server;
use crate::validation::{CORE, check, check_change};

const SUBDOMAIN: &str = r"a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')";

#[tokio::test]
async fn pods_are_checked_for_security_and_place() {
    let (_server, mut client) = server().await;
    let pod = |spec: &str| format!(r#""spec":{{"containers":[{{"name":"c","image":"i"}}],{spec}}}"#);
    let alias = format!(r#"spec.hostAliases[0].hostnames[0]: Invalid value: "A_b": {SUBDOMAIN}"#);
    let table: &[(&str, &[&str])] = &[
        (
            r#""hostPID":true,"shareProcessNamespace":true,"securityContext":{"runAsUser":-1,"supplementalGroups":[1,-2],"fsGroupChangePolicy":"Often","seccompProfile":{"type":"Localhost"},"sysctls":[{"name":"a..b"},{"name":"kernel.sem"},{"name":"kernel.sem"}]}"#,
            &[
                "spec.securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
                "spec.securityContext.supplementalGroups[1]: Invalid value: -2: must be between 0 and 2147483647, inclusive",
                "spec.securityContext.shareProcessNamespace: Invalid value: true: ShareProcessNamespace and HostPID cannot both be enabled",
                r#"spec.securityContext.sysctls[0].name: Invalid value: "a..b": must have at most 253 characters and match regex ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"#,
                r#"spec.securityContext.sysctls[2].name: Duplicate value: "kernel.sem""#,
                r#"spec.securityContext.fsGroupChangePolicy: Unsupported value: "Often": supported values: "Always", "OnRootMismatch""#,
                "spec.securityContext.seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost",
            ],
        ),
        (
            r#""affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[]},"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":101,"preference":{"matchExpressions":[{"key":"a","operator":"Gt"}],"matchFields":[{"key":"b","operator":"In","values":["x"]}]}}]},"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{"topologyKey":"t","matchLabelKeys":["k"]}]}}"#,
            &[
                "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms: Required value: must have at least one node selector term",
                "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 101: must be in the range 1-100",
                "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchExpressions[0].values: Required value: must be specified single value when `operator` is 'Lt' or 'Gt'",
                r#"spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].preference.matchFields[0].key: Invalid value: "b": not a valid field selector key"#,
                "spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0].matchLabelKeys: Forbidden: must not be specified when labelSelector is not set",
            ],
        ),
        (
            r#""topologySpreadConstraints":[{"maxSkew":0,"topologyKey":"z","whenUnsatisfiable":"ScheduleAnyway","minDomains":1},{"maxSkew":1,"topologyKey":"z","whenUnsatisfiable":"ScheduleAnyway"}]"#,
            &[
                "spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero",
                r#"spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: "{z, ScheduleAnyway}""#,
                "spec.topologySpreadConstraints[0].minDomains: Invalid value: 1: can only use minDomains if whenUnsatisfiable=DoNotSchedule, not ScheduleAnyway",
            ],
        ),
        (
            r#""dnsPolicy":"None","dnsConfig":{"nameservers":["1.2.3.4","01.2.3.4","x"],"searches":["a_b.c","."],"options":[{"value":"1"}]},"hostAliases":[{"ip":"::ffff:1.2.3.4","hostnames":["A_b"]}]"#,
            &[
                r#"spec.dnsConfig.nameservers[1]: Invalid value: "01.2.3.4": must not have leading 0s"#,
                r#"spec.dnsConfig.nameservers[2]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"#,
                "spec.dnsConfig.options[0]: Required value: must not be empty",
                r#"spec.hostAliases[0].ip: Invalid value: "::ffff:1.2.3.4": must not be an IPv4-mapped IPv6 address"#,
                &alias,
            ],
        ),
        (
            r#""os":{"name":"windows"},"hostIPC":true,"securityContext":{"runAsUser":1},"hostUsers":false"#,
            &[
                "spec.HostIPC: Forbidden: when `pod.Spec.HostUsers` is false",
                "spec.hostUsers: Forbidden: cannot be set for a windows pod",
                "spec.hostIPC: Forbidden: cannot be set for a windows pod",
                "spec.securityContext.runAsUser: Forbidden: cannot be set for a windows pod",
            ],
        ),
        (
            r#""nodeName":"n","schedulingGates":[{"name":"a"},{"name":"a"}],"resourceClaims":[{"name":"r"}]"#,
            &[
                r#"spec.resourceClaims[0]: Invalid value: {"Name":"r","ResourceClaimName":null,"ResourceClaimTemplateName":null}: must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"#,
                r#"spec.schedulingGates[1]: Duplicate value: "a""#,
                "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared",
            ],
        ),
    ];
    for (spec, want) in table {
        check(&mut client, &format!("{CORE}/pods"), "Pod", &[(&pod(spec), want)]).await;
    }
}

#[tokio::test]
async fn less_common_parts_of_containers_are_checked() {
    let (_server, mut client) = server().await;
    let pod = |container: &str| format!(r#""spec":{{"containers":[{{"name":"c","image":"i",{container}}}]}}"#);
    let table: &[(&str, &[&str])] = &[
        (
            r#""terminationMessagePolicy":"Log","resizePolicy":[{"resourceName":"gpu","restartPolicy":"NotRequired"}],"securityContext":{"allowPrivilegeEscalation":false,"privileged":true,"procMount":"Unmasked"}"#,
            &[
                r#"spec.containers[0].terminationMessagePolicy: Unsupported value: "Log": supported values: "File", "FallbackToLogsOnError""#,
                r#"spec.containers[0].resizePolicy: Unsupported value: "gpu": supported values: "cpu", "memory""#,
                r#"spec.containers[0].securityContext.procMount: Invalid value: "Unmasked": `hostUsers` must be false to use `Unmasked`"#,
                r#"spec.containers[0].securityContext: Invalid value: {"Capabilities":null,"Privileged":true,"SELinuxOptions":null,"WindowsOptions":null,"RunAsUser":null,"RunAsGroup":null,"RunAsNonRoot":null,"ReadOnlyRootFilesystem":null,"AllowPrivilegeEscalation":false,"ProcMount":"Unmasked","SeccompProfile":null,"AppArmorProfile":null}: cannot set `allowPrivilegeEscalation` to false and `privileged` to true"#,
            ],
        ),
        (
            r#""env":[{"name":"A","valueFrom":{"fieldRef":{"fieldPath":"spec.containers"}}},{"name":"B","valueFrom":{"fieldRef":{"fieldPath":"status.phase"}}},{"name":"C","valueFrom":{"resourceFieldRef":{"resource":"limits.cpu","divisor":"2"}}}]"#,
            &[
                r#"spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value: "spec.containers": error converting fieldPath: field label not supported: spec.containers"#,
                r#"spec.containers[0].env[1].valueFrom.fieldRef.fieldPath: Unsupported value: "status.phase": supported values: "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs""#,
                r#"spec.containers[0].env[2].valueFrom.resourceFieldRef.divisor: Invalid value: "limits.cpu": only divisor's values 1m and 1 are supported with the cpu resource"#,
            ],
        ),
        (
            r#""resources":{"limits":{"hugepages-2Mi":"3Mi"},"claims":[{"name":"r"}]}"#,
            &[
                r#"spec.containers[0].resources.limits[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of hugepages-2Mi"#,
                r#"spec.containers[0].resources.requests[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of hugepages-2Mi"#,
                "spec.containers[0].resources: Forbidden: HugePages require cpu or memory",
                r#"spec.containers[0].resources.claims[0]: Not found: "r": must be one of the names in pod.spec.resourceClaims which is empty"#,
            ],
        ),
        (
            r#""volumeMounts":[{"name":"v","mountPath":"/v","mountPropagation":"Bidirectional"}]}],"volumes":[{"name":"v","projected":{"sources":[{"secret":{"name":"s","items":[{"key":"k","path":"p"}]}},{"configMap":{"name":"m","items":[{"key":"k","path":"p"}]}}]}},{"name":"w","iscsi":{"targetPortal":"p","iqn":"x","lun":300}}],"initContainers":[{"name":"i","image":"i""#,
            &[
                r#"spec.volumes[0].projected: Invalid value: "m": conflicting duplicate paths"#,
                r#"spec.volumes[1].iscsi.iqn: Invalid value: "x": must be valid format starting with iqn, eui, or naa"#,
                "spec.volumes[1].iscsi.lun: Invalid value: 300: must be between 0 and 255, inclusive",
                r#"spec.containers[0].volumeMounts[0].name: Not found: "v""#,
                "spec.containers[0].volumeMounts.mountPropagation: Forbidden: Bidirectional mount propagation is available only to privileged containers",
            ],
        ),
    ];
    for (container, want) in table {
        check(&mut client, &format!("{CORE}/pods"), "Pod", &[(&pod(container), want)]).await;
    }
}

#[tokio::test]
async fn most_pod_fields_are_immutable() {
    let (_server, mut client) = server().await;
    let path = format!("{CORE}/pods");
    let pod = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"activeDeadlineSeconds":60,"containers":[{"name":"c","image":"i"}],"tolerations":[{"key":"a","operator":"Exists","effect":"NoExecute"}]}}"#;
    let table: &[(&str, &[&str])] = &[
        (r#"{"spec":{"activeDeadlineSeconds":30,"containers":[{"name":"c","image":"other"}]}}"#, &[]),
        (
            r#"{"spec":{"activeDeadlineSeconds":90}}"#,
            &["spec.activeDeadlineSeconds: Invalid value: 90: must be less than or equal to previous value"],
        ),
        (
            r#"{"spec":{"activeDeadlineSeconds":null}}"#,
            &["spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value"],
        ),
        (
            r#"{"spec":{"tolerations":null}}"#,
            &["spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds"],
        ),
        (
            r#"{"spec":{"schedulingGates":[{"name":"g"}]}}"#,
            &["spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'g'"],
        ),
    ];
    for (patch, want) in table {
        check_change(&mut client, &path, pod, patch, want).await;
    }
    // While a pod is gated, its node selection may become stricter.
    let gated = r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"g"},"spec":{"schedulingGates":[{"name":"g"}],"nodeSelector":{"a":"b"},"containers":[{"name":"c","image":"i"}]}}"#;
    check_change(&mut client, &path, gated, r#"{"spec":{"nodeSelector":{"c":"d"}}}"#, &[]).await;
    let want = r#"spec.nodeSelector: Invalid value: {"a":"x"}: only additions to spec.nodeSelector are allowed (no mutations or deletions)"#;
    check_change(&mut client, &path, gated, r#"{"spec":{"nodeSelector":{"a":"x"}}}"#, &[want]).await;
}

#[tokio::test]
async fn sets_and_their_updates_are_checked() {
    let (_server, mut client) = server().await;
    let set = |more: &str| {
        format!(
            r#""spec":{{"selector":{{"matchLabels":{{"a":"b"}}}},"template":{{"metadata":{{"labels":{{"a":"b"}}}},"spec":{{
            "containers":[{{"name":"c","image":"i","volumeMounts":[{{"name":"data","mountPath":"/d"}}]}}]}}}},{more}}}"#
        )
    };
    let apps = "/apis/apps/v1/namespaces/default";
    let stateful: &[(&str, &[&str])] = &[
        (
            r#""volumeClaimTemplates":[{"metadata":{"name":"data"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}]"#,
            &[],
        ),
        (
            r#""podManagementPolicy":"Random","updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":-1}},"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Keep","whenScaled":"Retain"},"ordinals":{"start":-1}"#,
            &[
                r#"spec.podManagementPolicy: Invalid value: "Random": must be 'OrderedReady' or 'Parallel'"#,
                "spec.updateStrategy.rollingUpdate.partition: Invalid value: -1: must be greater than or equal to 0",
                r#"spec.persistentVolumeClaimRetentionPolicy.whenDeleted: Unsupported value: "Keep": supported values: "Retain", "Delete""#,
                "spec.ordinals.start: Invalid value: -1: must be greater than or equal to 0",
            ],
        ),
        (
            r#""updateStrategy":{"type":"Never"}"#,
            &[
                r#"spec.updateStrategy: Invalid value: {"Type":"Never","RollingUpdate":null}: must be 'RollingUpdate' or 'OnDelete'"#,
            ],
        ),
    ];
    let plain = |more: &str| set(more).replace(r#","volumeMounts":[{"name":"data","mountPath":"/d"}]"#, "");
    for (more, want) in stateful {
        let content = if more.contains("volumeClaimTemplates") { set(more) } else { plain(more) };
        check(&mut client, &format!("{apps}/statefulsets"), "StatefulSet", &[(&content, want)]).await;
    }
    let daemon: &[(&str, &[&str])] = &[
        (
            r#""updateStrategy":{"rollingUpdate":{"maxUnavailable":1,"maxSurge":"150%"}}"#,
            &[
                r#"spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: "150%": must not be greater than 100%"#,
                r#"spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: "150%": may not be set when maxUnavailable is non-zero"#,
            ],
        ),
        (
            r#""updateStrategy":{"rollingUpdate":{"maxUnavailable":0,"maxSurge":0}}"#,
            &["spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0"],
        ),
        (
            r#""updateStrategy":{"type":"Never"}"#,
            &[
                r#"spec.updateStrategy: Unsupported value: {"Type":"Never","RollingUpdate":null}: supported values: "RollingUpdate", "OnDelete""#,
            ],
        ),
    ];
    for (more, want) in daemon {
        check(&mut client, &format!("{apps}/daemonsets"), "DaemonSet", &[(&plain(more), want)]).await;
    }
    let controllers: &[(&str, &[&str])] = &[(
        r#""spec":{"replicas":-1,"selector":{"a":"c"},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"restartPolicy":"Never","activeDeadlineSeconds":1,"containers":[{"name":"c","image":"i"}]}}}"#,
        &[
            "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
            r#"spec.template.metadata.labels: Invalid value: {"a":"b"}: `selector` does not match template `labels`"#,
            r#"spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always""#,
            "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicationController is not Supported",
        ],
    )];
    check(&mut client, &format!("{CORE}/replicationcontrollers"), "ReplicationController", controllers).await;
    let templates: &[(&str, &[&str])] =
        &[(r#""template":{"spec":{"containers":[]}}"#, &["template.spec.containers: Required value"])];
    check(&mut client, &format!("{CORE}/podtemplates"), "PodTemplate", templates).await;
}

#[tokio::test]
async fn policies_of_jobs_are_checked() {
    let (_server, mut client) = server().await;
    let job = |more: &str| {
        format!(
            r#""spec":{{"template":{{"spec":{{"restartPolicy":"Never","containers":[{{"name":"c","image":"i"}}]}}}},{more}}}"#
        )
    };
    let table: &[(&str, &[&str])] = &[
        (
            r#""podFailurePolicy":{"rules":[{"action":"Explode","onExitCodes":{"containerName":"d","operator":"In","values":[3,0,3]}},{"action":"FailIndex"},{"onPodConditions":[{"type":"T","status":"Maybe"}]}]}"#,
            &[
                r#"spec.podFailurePolicy.rules[0].action: Unsupported value: "Explode": supported values: "Count", "FailIndex", "FailJob", "Ignore""#,
                r#"spec.podFailurePolicy.rules[0].onExitCodes.containerName: Invalid value: "d": must be one of the container or initContainer names in the pod template"#,
                "spec.podFailurePolicy.rules[0].onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator",
                "spec.podFailurePolicy.rules[0].onExitCodes.values[2]: Duplicate value: 3",
                "spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: [3,0,3]: must be ordered",
                r#"spec.podFailurePolicy.rules[1].action: Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set"#,
                "spec.podFailurePolicy.rules[1]: Invalid value: specifying one of OnExitCodes and OnPodConditions is required",
                r#"spec.podFailurePolicy.rules[2].action: Required value: valid values: ["Count" "FailIndex" "FailJob" "Ignore"]"#,
                r#"spec.podFailurePolicy.rules[2].onPodConditions[0].status: Unsupported value: "Maybe": supported values: "False", "True", "Unknown""#,
            ],
        ),
        (
            r#""completionMode":"Indexed","completions":3,"successPolicy":{"rules":[{},{"succeededIndexes":"0-1","succeededCount":3},{"succeededIndexes":"2,1"},{"succeededIndexes":"5"}]}"#,
            &[
                "spec.successPolicy.rules[0]: Required value: at least one of succeededCount or succeededIndexes must be specified",
                "spec.successPolicy.rules[1].succeededCount: Invalid value: 3: must be less than or equal to 2 (the number of indexes in the specified succeededIndexes field)",
                r#"spec.successPolicy.rules[2].succeededIndexes: Invalid value: "2,1": error parsing succeededIndexes: non-increasing order, previous: 2, current: 1"#,
                r#"spec.successPolicy.rules[3].succeededIndexes: Invalid value: "5": error parsing succeededIndexes: too large index: "5""#,
            ],
        ),
        (
            r#""managedBy":"me","podReplacementPolicy":"Never""#,
            &[
                r#"spec.managedBy: Invalid value: "me": must be a domain-prefixed path (such as "acme.io/foo")"#,
                r#"spec.podReplacementPolicy: Unsupported value: "Never": supported values: "Failed", "TerminatingOrFailed""#,
            ],
        ),
    ];
    for (more, want) in table {
        check(&mut client, "/apis/batch/v1/namespaces/default/jobs", "Job", &[(&job(more), want)]).await;
    }
    let cron = |zone: &str| {
        format!(
            r#""spec":{{"schedule":"@daily","timeZone":"{zone}","jobTemplate":{{"spec":{{"template":{{"spec":{{"restartPolicy":"Never","containers":[{{"name":"c","image":"i"}}]}}}}}}}}}}"#
        )
    };
    for (zone, want) in [
        ("UTC", &[][..]),
        (
            "local",
            &[
                r#"spec.timeZone: Invalid value: "local": timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones"#,
            ],
        ),
        ("../etc", &[r#"spec.timeZone: Invalid value: "../etc": unknown time zone ../etc"#]),
    ] {
        check(&mut client, "/apis/batch/v1/namespaces/default/cronjobs", "CronJob", &[(&cron(zone), want)]).await;
    }
}
