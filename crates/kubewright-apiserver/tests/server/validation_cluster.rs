//! Validation of storage, nodes, endpoints, services and other cluster kinds.

use crate::client::{server, text};
use crate::validation::{CORE, check, check_change};

const STORAGE: &str = "/apis/storage.k8s.io/v1";

#[tokio::test]
async fn volumes_and_claims_are_checked() {
    let (_server, mut client) = server().await;
    let volumes: &[(&str, &[&str])] = &[
        (
            r#""spec":{}"#,
            &[
                "spec.accessModes: Required value",
                "spec.capacity: Required value",
                r#"spec.capacity: Unsupported value: null: supported values: "storage""#,
                "spec: Required value: must specify a volume type",
            ],
        ),
        (
            r#""spec":{"capacity":{"storage":"0"},"accessModes":["ReadWriteOnce"],"persistentVolumeReclaimPolicy":"Burn","local":{"path":"/a/../b"},"nfs":{"server":"s","path":"p"},"volumeAttributesClassName":"c"}"#,
            &[
                r#"spec.capacity[storage]: Invalid value: "0": must be greater than zero"#,
                r#"spec.persistentVolumeReclaimPolicy: Unsupported value: "Burn": supported values: "Delete", "Recycle", "Retain""#,
                r#"spec.nfs.path: Invalid value: "p": must be an absolute path"#,
                "spec.local: Forbidden: may not specify more than 1 volume type",
                "spec.csi: Required value: has to be specified when using volumeAttributesClassName",
            ],
        ),
        (
            r#""spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"local":{"path":"/a"}}"#,
            &["spec.nodeAffinity: Required value: Local volume requires node affinity"],
        ),
        (
            r#""spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"hostPath":{"path":"/"},"persistentVolumeReclaimPolicy":"Recycle"}"#,
            &["spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'"],
        ),
        (
            r#""spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"csi":{"driver":"d","nodeStageSecretRef":{"name":"n"},"nodePublishSecretRef":{"name":"n"}}}"#,
            &["spec.csi.volumeHandle: Required value", "spec.csi.nodePublishSecretRef.namespace: Required value"],
        ),
    ];
    check(&mut client, "/api/v1/persistentvolumes", "PersistentVolume", volumes).await;
    let volume = r#"{"apiVersion":"v1","kind":"PersistentVolume","metadata":{"name":"v"},"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"hostPath":{"path":"/a"}}}"#;
    let changes: &[(&str, &[&str])] = &[
        (r#"{"spec":{"capacity":{"storage":"2Gi"},"persistentVolumeReclaimPolicy":"Delete"}}"#, &[]),
        (
            r#"{"spec":{"hostPath":{"path":"/b"}}}"#,
            &["spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation"],
        ),
        (r#"{"spec":{"volumeMode":"Block"}}"#, &[r#"volumeMode: Invalid value: "Block": field is immutable"#]),
    ];
    for (patch, want) in changes {
        check_change(&mut client, "/api/v1/persistentvolumes", volume, patch, want).await;
    }
    let claims = format!("{CORE}/persistentvolumeclaims");
    let sources: &[(&str, &[&str])] = &[(
        r#""spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}},"dataSource":{"kind":"Thing","name":"a"},"dataSourceRef":{"kind":"PersistentVolumeClaim","name":"a"}}"#,
        &[
            r#"spec.dataSource: Invalid value: "Thing": must be 'PersistentVolumeClaim' when referencing the default apiGroup"#,
            "spec: Invalid value: {}: must match dataSourceRef",
        ],
    )];
    check(&mut client, &claims, "PersistentVolumeClaim", sources).await;
    let claim = r#"{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"c"},"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"2Gi"}}}}"#;
    let fixed = "spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
    check_change(&mut client, &claims, claim, r#"{"spec":{"storageClassName":"x","volumeName":"v"}}"#, &[]).await;
    check_change(&mut client, &claims, claim, r#"{"spec":{"accessModes":["ReadWriteMany"]}}"#, &[fixed]).await;
    // A bound claim may grow, and shrink again, but not to its capacity or below.
    let (code, made) = client.call("POST", &claims, claim).await;
    assert_eq!(code, 201, "{made}");
    let bound = r#"{"status":{"phase":"Bound","capacity":{"storage":"1Gi"}}}"#;
    let (code, made) = client.call("PATCH", &format!("{claims}/c/status"), bound).await;
    assert_eq!(code, 200, "{made}");
    for (size, want) in [
        ("3Gi", None),
        ("1500Mi", None),
        ("1Gi", Some("spec.resources.requests.storage: Forbidden: field can not be less than status.capacity")),
    ] {
        let patch = format!(r#"{{"spec":{{"resources":{{"requests":{{"storage":"{size}"}}}}}}}}"#);
        let (_, answer) = client.call("PATCH", &format!("{claims}/c?dryRun=All"), &patch).await;
        let want: Vec<String> = want.map(str::to_owned).into_iter().collect();
        assert_eq!(crate::validation::causes(&answer), want, "{size}: {answer}");
    }
}

#[tokio::test]
async fn classes_and_drivers_of_storage_are_checked() {
    let (_server, mut client) = server().await;
    let classes: &[(&str, &[&str])] = &[(
        r#""provisioner":"","reclaimPolicy":"Recycle","volumeBindingMode":"Later","allowedTopologies":[{"matchLabelExpressions":[{"key":"zone","values":[]},{"key":"zone","values":["a","a"]}]}]"#,
        &[
            "provisioner: Required value",
            r#"reclaimPolicy: Unsupported value: "Recycle": supported values: "Delete", "Retain""#,
            r#"volumeBindingMode: Unsupported value: "Later": supported values: "Immediate", "WaitForFirstConsumer""#,
            "allowedTopologies[0].matchLabelExpressions[0].values: Required value",
            r#"allowedTopologies[0].matchLabelExpressions[1].values[1]: Duplicate value: "a""#,
            r#"allowedTopologies[0].matchLabelExpressions[1].key: Duplicate value: "zone""#,
        ],
    )];
    check(&mut client, &format!("{STORAGE}/storageclasses"), "StorageClass", classes).await;
    let class = r#"{"apiVersion":"storage.k8s.io/v1","kind":"StorageClass","metadata":{"name":"s"},"provisioner":"p"}"#;
    let patch = r#"{"provisioner":"q","parameters":{"a":"b"},"reclaimPolicy":"Retain","volumeBindingMode":"WaitForFirstConsumer","allowVolumeExpansion":true}"#;
    let want = [
        "parameters: Forbidden: updates to parameters are forbidden.",
        "provisioner: Forbidden: updates to provisioner are forbidden.",
        "reclaimPolicy: Forbidden: updates to reclaimPolicy are forbidden.",
        r#"volumeBindingMode: Invalid value: "WaitForFirstConsumer": field is immutable"#,
    ];
    check_change(&mut client, &format!("{STORAGE}/storageclasses"), class, patch, &want).await;
    let drivers: &[(&str, &[&str])] = &[(
        r#""spec":{"fsGroupPolicy":"All","tokenRequests":[{"audience":"a","expirationSeconds":5},{"audience":"a"}],"volumeLifecycleModes":["Forever"],"nodeAllocatableUpdatePeriodSeconds":5}"#,
        &[
            r#"spec.fsGroupPolicy: Unsupported value: "All": supported values: "File", "None", "ReadWriteOnceWithFSType""#,
            "spec.tokenRequests[0].expirationSeconds: Invalid value: 5: may not specify a duration less than 10 minutes",
            r#"spec.tokenRequests[1].audience: Duplicate value: "a""#,
            r#"spec.volumeLifecycleModes: Unsupported value: "Forever": supported values: "Persistent", "Ephemeral""#,
            "spec.nodeAllocatableUpdatePeriodSeconds: Invalid value: 5: must be greater than or equal to 10 seconds",
        ],
    )];
    check(&mut client, &format!("{STORAGE}/csidrivers"), "CSIDriver", drivers).await;
    let nodes: &[(&str, &[&str])] = &[(
        r#""spec":{"drivers":[{"name":"d","nodeID":""},{"name":"d","nodeID":"n","allocatable":{"count":-1},"topologyKeys":["a","a"]}]}"#,
        &[
            "spec.drivers[0].nodeID: Required value",
            "spec.drivers[1].allocatable.count: Invalid value: -1: must be greater than or equal to 0",
            r#"spec.drivers[1].name: Duplicate value: "d""#,
            r#"spec.drivers[1]: Duplicate value: "a""#,
        ],
    )];
    check(&mut client, &format!("{STORAGE}/csinodes"), "CSINode", nodes).await;
    let node = r#"{"apiVersion":"storage.k8s.io/v1","kind":"CSINode","metadata":{"name":"n"},"spec":{"drivers":[{"name":"d","nodeID":"n"}]}}"#;
    let want = r#"spec.drivers: Invalid value: {"Name":"d","NodeID":"m","TopologyKeys":null,"Allocatable":null}: field is immutable"#;
    let patch = r#"{"spec":{"drivers":[{"name":"d","nodeID":"m"}]}}"#;
    check_change(&mut client, &format!("{STORAGE}/csinodes"), node, patch, &[want]).await;
    let attachments: &[(&str, &[&str])] = &[
        (
            r#""spec":{"attacher":"a","nodeName":"n","source":{}}"#,
            &["spec.source: Required value: must specify exactly one of inlineVolumeSpec and persistentVolumeName"],
        ),
        (
            r#""spec":{"attacher":"a","nodeName":"n","source":{"inlineVolumeSpec":{"capacity":{"storage":"1"},"accessModes":["ReadWriteOnce"],"nfs":{"server":"s","path":"/p"}}}}"#,
            &[
                "spec.source.inlineVolumeSpec.capacity: Forbidden: may not be specified in the context of inline volumes",
                "spec.source.inlineVolumeSpec.csi: Required value: has to be specified in the context of inline volumes",
            ],
        ),
    ];
    check(&mut client, &format!("{STORAGE}/volumeattachments"), "VolumeAttachment", attachments).await;
    let capacities: &[(&str, &[&str])] = &[(
        r#""storageClassName":"c","capacity":"-1","nodeTopology":{"matchExpressions":[{"key":"a","operator":"In"}]}"#,
        &[
            "nodeTopology.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
            r#"capacity: Invalid value: "-1": must be greater than or equal to 0"#,
        ],
    )];
    let path = format!("{STORAGE}/namespaces/default/csistoragecapacities");
    check(&mut client, &path, "CSIStorageCapacity", capacities).await;
    let attributes: &[(&str, &[&str])] =
        &[(r#""driverName":"d""#, &["parameters: Required value: must contain at least one key/value pair"])];
    check(&mut client, &format!("{STORAGE}/volumeattributesclasses"), "VolumeAttributesClass", attributes).await;
}

#[tokio::test]
async fn nodes_and_node_level_objects_are_validated() {
    let (_server, mut client) = server().await;
    let nodes: &[(&str, &[&str])] = &[(
        r#""spec":{"podCIDRs":["10.0.0.0/24","10.0.0.1/24"],"taints":[{"key":"a","effect":"Never"},{"key":"b"},{"key":"c","value":"v","effect":"NoSchedule"},{"key":"c","effect":"NoSchedule"}]},"status":{"capacity":{"pods":"1500m","cpu":"-1"}}"#,
        &[
            r#"metadata.taints[0].effect: Unsupported value: "Never": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute""#,
            "metadata.taints[1].effect: Required value",
            r#"metadata.taints[3]: Duplicate value: {"Key":"c","Value":"","Effect":"NoSchedule","TimeAdded":null}: taints must be unique by key and effect pair"#,
            r#"status.capacity.cpu: Invalid value: "-1": must be greater than or equal to 0"#,
            r#"status.capacity.pods: Invalid value: "1500m": must be an integer"#,
            r#"status.allocatable.cpu: Invalid value: "-1": must be greater than or equal to 0"#,
            r#"status.allocatable.pods: Invalid value: "1500m": must be an integer"#,
            r#"spec.podCIDRs[1]: Invalid value: "10.0.0.1/24": must not have bits set beyond the prefix length"#,
            r#"spec.podCIDRs: Invalid value: ["10.0.0.0/24","10.0.0.1/24"]: may specify no more than one CIDR for each IP family"#,
        ],
    )];
    check(&mut client, "/api/v1/nodes", "Node", nodes).await;
    let node = r#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"},"spec":{"podCIDR":"10.0.0.0/24","providerID":"p"}}"#;
    let patch = r#"{"spec":{"podCIDR":"10.0.1.0/24","podCIDRs":["10.0.1.0/24"],"providerID":"q"}}"#;
    let want = [
        r#"spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid"#,
        r#"spec.providerID: Forbidden: node updates may not change providerID except from "" to valid"#,
    ];
    check_change(&mut client, "/api/v1/nodes", node, patch, &want).await;
    let runtimes: &[(&str, &[&str])] = &[(
        r#""handler":"h","overhead":{"podFixed":{"cpu":"-1"}},"scheduling":{"tolerations":[{"key":"a","operator":"Exists"},{"key":"a","operator":"Exists"}]}"#,
        &[
            r#"overhead.limits[cpu]: Invalid value: "-1": must be greater than or equal to 0"#,
            r#"scheduling.tolerations[1]: Duplicate value: {"Key":"a","Operator":"Exists","Value":"","Effect":"","TolerationSeconds":null}"#,
        ],
    )];
    check(&mut client, "/apis/node.k8s.io/v1/runtimeclasses", "RuntimeClass", runtimes).await;
    let devices: &[(&str, &[&str])] = &[(
        r#""spec":{"selectors":[{"cel":{"expression":""}},{}],"config":[{"opaque":{"driver":"","parameters":{}}},{}],"extendedResourceName":"cpu"}"#,
        &[
            "spec.selectors[0].cel.expression: Required value",
            "spec.selectors[1].cel: Required value",
            "spec.config[0].opaque.driver: Required value",
            "spec.config[1].opaque: Required value",
            r#"spec.extendedResourceName: Invalid value: "cpu": must be a valid extended resource name"#,
        ],
    )];
    check(&mut client, "/apis/resource.k8s.io/v1/deviceclasses", "DeviceClass", devices).await;
}

#[tokio::test]
async fn endpoints_and_addresses_of_services_are_checked() {
    let (_server, mut client) = server().await;
    let endpoints: &[(&str, &[&str])] = &[(
        r#""subsets":[{"ports":[{"port":0},{"port":80,"name":"a","protocol":"X"}]},{"addresses":[{"ip":"127.0.0.1"},{"ip":"x"}]}]"#,
        &[
            "subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`",
            "subsets[0].ports[0].name: Required value",
            "subsets[0].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive",
            r#"subsets[0].ports[1].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP""#,
            r#"subsets[1].addresses[0].ip: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)"#,
            r#"subsets[1].addresses[1].ip: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"#,
            r#"subsets[1].addresses[1].ip: Invalid value: "x": must be a valid IP address"#,
        ],
    )];
    check(&mut client, &format!("{CORE}/endpoints"), "Endpoints", endpoints).await;
    let slices: &[(&str, &[&str])] = &[
        (
            r#""addressType":"IPv4","endpoints":[{"addresses":[]},{"addresses":["2001:db8::1"],"hints":{"forZones":[{"name":"a"},{"name":"a"}]}}],"ports":[{"name":"a"},{"name":"a","protocol":"X"}]"#,
            &[
                "endpoints[0].addresses: Required value: must contain at least 1 address",
                r#"endpoints[1].addresses[0]: Invalid value: "2001:db8::1": must be a valid IPv4 address"#,
                r#"endpoints[1].hints.forZones[1].name: Duplicate value: "a""#,
                r#"ports[1].name: Duplicate value: "a""#,
                r#"ports[1].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP""#,
            ],
        ),
        (
            r#""addressType":"FQDN","endpoints":[{"addresses":["one"]}]"#,
            &[
                r#"endpoints[0].addresses[0]: Invalid value: "one": should be a domain with at least two segments separated by dots"#,
            ],
        ),
    ];
    let path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";
    check(&mut client, path, "EndpointSlice", slices).await;
    let services: &[(&str, &[&str])] = &[
        (
            r#""spec":{"ports":[{"port":80}],"externalIPs":["0.0.0.0","169.254.0.1"],"externalTrafficPolicy":"Cluster","loadBalancerSourceRanges":["10.0.0.1/8"],"loadBalancerClass":"a/b"}"#,
            &[
                r#"spec.externalIPs[0]: Invalid value: "0.0.0.0": may not be unspecified (0.0.0.0)"#,
                r#"spec.externalIPs[1]: Invalid value: "169.254.0.1": may not be in the link-local range (169.254.0.0/16, fe80::/10)"#,
                "spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer'",
                r#"spec.LoadBalancerSourceRanges[0]: Invalid value: "10.0.0.1/8": must not have bits set beyond the prefix length"#,
                "spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'",
            ],
        ),
        (
            r#""spec":{"ports":[{"port":80}],"ipFamilies":["IPv4","IPv4"],"ipFamilyPolicy":"Some","clusterIP":"10.0.0.300","clusterIPs":["10.0.0.300"]}"#,
            &[
                r#"spec.ipFamilies[1]: Duplicate value: "IPv4""#,
                r#"spec.ipFamilyPolicy: Unsupported value: "Some": supported values: "PreferDualStack", "RequireDualStack", "SingleStack""#,
                r#"spec.clusterIPs[0]: Invalid value: "10.0.0.300": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"#,
            ],
        ),
        (
            r#""spec":{"ports":[{"port":80}],"externalTrafficPolicy":"Local","healthCheckNodePort":30000,"trafficDistribution":"Far"}"#,
            &[
                r#"spec.externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible services"#,
                "spec.healthCheckNodePort: Invalid value: 30000: may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'",
                r#"spec.trafficDistribution: Unsupported value: "Far": supported values: "PreferClose", "PreferSameNode", "PreferSameZone""#,
            ],
        ),
    ];
    check(&mut client, &format!("{CORE}/services"), "Service", services).await;
    let classes: &[(&str, &[&str])] = &[(
        r#""spec":{"controller":"nginx","parameters":{"kind":"","name":"a/b","scope":"Namespace"}}"#,
        &[
            r#"spec.controller: Invalid value: "nginx": must be a domain-prefixed path (such as "acme.io/foo")"#,
            "spec.parameters.kind: Required value: kind is required",
            r#"spec.parameters.name: Invalid value: "a/b": may not contain '/'"#,
            "spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'",
        ],
    )];
    check(&mut client, "/apis/networking.k8s.io/v1/ingressclasses", "IngressClass", classes).await;
}

#[tokio::test]
async fn metrics_of_autoscalers_and_sharing_of_the_server_are_checked() {
    let (_server, mut client) = server().await;
    let scaler = |more: &str| {
        format!(r#""spec":{{"maxReplicas":2,"scaleTargetRef":{{"kind":"Deployment","name":"d"}},{more}}}"#)
    };
    let scalers: &[(&str, &[&str])] = &[
        (
            r#""metrics":[{"type":"Pods"},{"type":"Odd"},{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":0,"averageValue":"1"}}},{"type":"External","external":{"metric":{"name":"m"},"target":{"type":"Share"}}}]"#,
            &[
                "spec.metrics[0].pods: Required value: must populate information for the given metric source",
                r#"spec.metrics[1].type: Unsupported value: "Odd": supported values: "ContainerResource", "External", "Object", "Pods", "Resource""#,
                r#"spec.metrics[1].type: Unsupported value: "Odd": supported values: "ContainerResource", "External", "Object", "Pods", "Resource""#,
                "spec.metrics[2].resource.target.averageUtilization: Invalid value: 0: must be greater than 0",
                "spec.metrics[2].resource.target.averageValue: Forbidden: may not set both a target raw value and a target utilization",
                r#"spec.metrics[3].external.target.type: Invalid value: "Share": must be either Utilization, Value, or AverageValue"#,
                "spec.metrics[3].external.target.averageValue: Required value: must set either a target value for metric or a per-pod target",
            ],
        ),
        (
            r#""behavior":{"scaleDown":{"stabilizationWindowSeconds":4000,"selectPolicy":"Any","policies":[{"type":"Half","value":0,"periodSeconds":2000}]}}"#,
            &[
                "spec.behavior.scaleDown.stabilizationWindowSeconds: Invalid value: 4000: must be less than or equal to 3600",
                r#"spec.behavior.scaleDown.selectPolicy: Unsupported value: "Any": supported values: "Disabled", "Max", "Min""#,
                r#"spec.behavior.scaleDown.policies[0].type: Unsupported value: "Half": supported values: "Percent", "Pods""#,
                "spec.behavior.scaleDown.policies[0].value: Invalid value: 0: must be greater than zero",
                "spec.behavior.scaleDown.policies[0].periodSeconds: Invalid value: 2000: must be less than or equal to 1800",
            ],
        ),
        (r#""behavior":{"scaleUp":{}}"#, &[]),
    ];
    let path = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    for (more, want) in scalers {
        check(&mut client, path, "HorizontalPodAutoscaler", &[(&scaler(more), want)]).await;
    }
    let flow = "/apis/flowcontrol.apiserver.k8s.io/v1";
    let schemas: &[(&str, &[&str])] = &[(
        r#""spec":{"matchingPrecedence":1,"priorityLevelConfiguration":{"name":""},"distinguisherMethod":{"type":"ByMoon"},"rules":[{"subjects":[{"kind":"User","group":{"name":"g"}}],"nonResourceRules":[{"verbs":["look"],"nonResourceURLs":["/a*"]}]}]}"#,
        &[
            "spec.matchingPrecedence: Invalid value: 1: only the schema named 'exempt' may have matchingPrecedence 1",
            r#"spec.distinguisherMethod.type: Unsupported value: {"Type":"ByMoon"}: supported values: "ByNamespace", "ByUser""#,
            "spec.priorityLevelConfiguration.name: Required value: must reference a priority level",
            "spec.rules[0].subjects[0].user: Required value: user is required when subject kind is 'User'",
            "spec.rules[0].subjects[0].group: Forbidden: group is forbidden when subject kind is not 'Group'",
            r#"spec.rules[0].nonResourceRules[0].verbs: Unsupported value: ["look"]: supported values: "create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch""#,
            r#"spec.rules[0].nonResourceRules[0].nonResourceURLs[0]: Invalid value: "/a*": wildcard can only do suffix matching"#,
        ],
    )];
    check(&mut client, &format!("{flow}/flowschemas"), "FlowSchema", schemas).await;
    let levels: &[(&str, &[&str])] = &[
        (
            r#""spec":{"type":"Limited","limited":{"nominalConcurrencyShares":-1,"limitResponse":{"type":"Queue","queuing":{"queues":2,"handSize":3,"queueLengthLimit":-1}}}}"#,
            &[
                "spec.limited.nominalConcurrencyShares: Invalid value: -1: must be a non-negative integer",
                "spec.limited.limitResponse.queuing.queueLengthLimit: Invalid value: -1: must be positive",
                "spec.limited.limitResponse.queuing.handSize: Invalid value: 3: should not be greater than queues (2)",
            ],
        ),
        (
            r#""spec":{"type":"Exempt"}"#,
            &[r#"spec.type: Invalid value: "Exempt": type must be 'Exempt' if and only if name is 'exempt'"#],
        ),
    ];
    let path = format!("{flow}/prioritylevelconfigurations");
    check(&mut client, &path, "PriorityLevelConfiguration", levels).await;
}

#[tokio::test]
async fn mandatory_flow_control_objects_are_immutable() {
    let (_server, mut client) = server().await;
    let flow = "/apis/flowcontrol.apiserver.k8s.io/v1";
    let all = r#""rules":[{"subjects":[{"kind":"Group","group":{"name":"system:masters"}}],"resourceRules":[{"verbs":["*"],"apiGroups":["*"],"resources":["*"],"clusterScope":true,"namespaces":["*"]}],"nonResourceRules":[{"verbs":["*"],"nonResourceURLs":["*"]}]}]"#;
    let limited = |shares: i32| {
        format!(
            r#"{{"type":"Limited","limited":{{"nominalConcurrencyShares":{shares},"limitResponse":{{"type":"Reject"}}}}}}"#
        )
    };
    let exempt = |shares: i32| format!(r#"{{"type":"Exempt","exempt":{{"nominalConcurrencyShares":{shares}}}}}"#);
    let schema =
        |level: &str| format!(r#"{{"priorityLevelConfiguration":{{"name":"{level}"}},"matchingPrecedence":1,{all}}}"#);
    let catch_all = |precedence: i32| {
        let everybody = r#"{"kind":"Group","group":{"name":"system:unauthenticated"}},{"kind":"Group","group":{"name":"system:authenticated"}}"#;
        let all = all.replace(r#"{"kind":"Group","group":{"name":"system:masters"}}"#, everybody);
        format!(
            r#"{{"priorityLevelConfiguration":{{"name":"catch-all"}},"matchingPrecedence":{precedence},"distinguisherMethod":{{"type":"ByUser"}},{all}}}"#
        )
    };
    for (plural, kind, name, right, wrong, why) in [
        (
            "flowschemas",
            "FlowSchema",
            "exempt",
            schema("exempt"),
            schema("other"),
            "spec of 'exempt' must equal the fixed value",
        ),
        (
            "flowschemas",
            "FlowSchema",
            "catch-all",
            catch_all(10_000),
            catch_all(9_000),
            "spec of 'catch-all' must equal the fixed value",
        ),
        (
            "prioritylevelconfigurations",
            "PriorityLevelConfiguration",
            "catch-all",
            limited(5),
            limited(6),
            "spec of 'catch-all' must equal the fixed value",
        ),
        (
            "prioritylevelconfigurations",
            "PriorityLevelConfiguration",
            "exempt",
            exempt(0),
            limited(5),
            "spec of 'exempt' except the 'spec.exempt' field must equal the fixed value",
        ),
    ] {
        let object = |spec: &str| {
            format!(
                r#"{{"apiVersion":"flowcontrol.apiserver.k8s.io/v1","kind":"{kind}","metadata":{{"name":"{name}"}},"spec":{spec}}}"#
            )
        };
        let path = format!("{flow}/{plural}");
        let (code, made) = client.call("POST", &path, &object(&right)).await;
        assert_eq!(code, 201, "{made}");
        let (code, refused) = client.call("PUT", &format!("{path}/{name}"), &object(&wrong)).await;
        assert!(code == 422 && text(&refused, "message").contains(why), "{refused}");
    }
    let path = format!("{flow}/prioritylevelconfigurations/exempt");
    let (code, changed) = client.call("PATCH", &path, r#"{"spec":{"exempt":{"lendablePercent":50}}}"#).await;
    assert_eq!(code, 200, "this part is free: {changed}");
}
