//! JSON → Kubernetes protobuf for the fields the generator uses.
//!
//! The table says, per message, `(tag, json name, kind)` in tag order. Lower-case kinds are Go
//! pointers or slices or maps (absent when unset); upper-case ones are Go values, which the Go API
//! server writes even when zero. `peer-client-go -verify` checks that the result is byte for byte
//! what Go's own marshaller gives.
use serde_json::Value;

#[derive(Clone, Copy)]
enum K {
    Str,
    Int,
    Bool,
    Time,
    Msg(&'static str),
    Inline(&'static str),
    IntOrString,
    OptInt,
    OptBool,
    OptStr,
    OptTime,
    OptMsg(&'static str),
    RepStr,
    RepMsg(&'static str),
    MapStr,
    MapQuantity,
    Fields,
}
use K::*;

fn schema(m: &str) -> &'static [(u32, &'static str, K)] {
    match m {
        "Pod" => &[(1, "metadata", Msg("ObjectMeta")), (2, "spec", Msg("PodSpec")), (3, "status", Msg("PodStatus"))],
        "Status" => &[
            (1, "metadata", Msg("ListMeta")),
            (2, "status", Str),
            (3, "message", Str),
            (4, "reason", Str),
            (6, "code", Int),
        ],
        "ListMeta" => &[(1, "selfLink", Str), (2, "resourceVersion", Str), (3, "continue", Str)],
        "PartialObjectMetadata" => &[(1, "metadata", Msg("ObjectMeta"))],
        "ObjectMeta" => &[
            (1, "name", Str),
            (2, "generateName", Str),
            (3, "namespace", Str),
            (4, "selfLink", Str),
            (5, "uid", Str),
            (6, "resourceVersion", Str),
            (7, "generation", Int),
            (8, "creationTimestamp", Time),
            (11, "labels", MapStr),
            (12, "annotations", MapStr),
            (13, "ownerReferences", RepMsg("OwnerReference")),
            (17, "managedFields", RepMsg("ManagedFieldsEntry")),
        ],
        "OwnerReference" => &[
            (1, "kind", Str),
            (3, "name", Str),
            (4, "uid", Str),
            (5, "apiVersion", Str),
            (6, "controller", OptBool),
            (7, "blockOwnerDeletion", OptBool),
        ],
        "ManagedFieldsEntry" => &[
            (1, "manager", Str),
            (2, "operation", Str),
            (3, "apiVersion", Str),
            (4, "time", OptTime),
            (6, "fieldsType", Str),
            (7, "fieldsV1", Fields),
            (8, "subresource", Str),
        ],
        "PodSpec" => &[
            (1, "volumes", RepMsg("Volume")),
            (2, "containers", RepMsg("Container")),
            (3, "restartPolicy", Str),
            (4, "terminationGracePeriodSeconds", OptInt),
            (6, "dnsPolicy", Str),
            (8, "serviceAccountName", Str),
            (9, "serviceAccount", Str),
            (10, "nodeName", Str),
            (11, "hostNetwork", Bool),
            (12, "hostPID", Bool),
            (13, "hostIPC", Bool),
            (14, "securityContext", OptMsg("PodSecurityContext")),
            (16, "hostname", Str),
            (17, "subdomain", Str),
            (19, "schedulerName", Str),
            (22, "tolerations", RepMsg("Toleration")),
            (24, "priorityClassName", Str),
            (25, "priority", OptInt),
            (30, "enableServiceLinks", OptBool),
            (31, "preemptionPolicy", OptStr),
        ],
        "Volume" => &[(1, "name", Str), (2, "", Inline("VolumeSource"))],
        "VolumeSource" => &[
            (2, "emptyDir", OptMsg("EmptyDirVolumeSource")),
            (19, "configMap", OptMsg("ConfigMapVolumeSource")),
            (26, "projected", OptMsg("ProjectedVolumeSource")),
        ],
        "EmptyDirVolumeSource" => &[(1, "medium", Str)],
        "LocalObjectReference" => &[(1, "name", Str)],
        "ConfigMapVolumeSource" => {
            &[(1, "", Inline("LocalObjectReference")), (2, "items", RepMsg("KeyToPath")), (3, "defaultMode", OptInt)]
        }
        "ProjectedVolumeSource" => &[(1, "sources", RepMsg("VolumeProjection")), (2, "defaultMode", OptInt)],
        "VolumeProjection" => &[
            (2, "downwardAPI", OptMsg("DownwardAPIProjection")),
            (3, "configMap", OptMsg("ConfigMapProjection")),
            (4, "serviceAccountToken", OptMsg("ServiceAccountTokenProjection")),
        ],
        "ServiceAccountTokenProjection" => &[(1, "audience", Str), (2, "expirationSeconds", OptInt), (3, "path", Str)],
        "ConfigMapProjection" => &[(1, "", Inline("LocalObjectReference")), (2, "items", RepMsg("KeyToPath"))],
        "DownwardAPIProjection" => &[(1, "items", RepMsg("DownwardAPIVolumeFile"))],
        "DownwardAPIVolumeFile" => &[(1, "path", Str), (2, "fieldRef", OptMsg("ObjectFieldSelector"))],
        "ObjectFieldSelector" => &[(1, "apiVersion", Str), (2, "fieldPath", Str)],
        "KeyToPath" => &[(1, "key", Str), (2, "path", Str)],
        "Container" => &[
            (1, "name", Str),
            (2, "image", Str),
            (3, "command", RepStr),
            (4, "args", RepStr),
            (5, "workingDir", Str),
            (6, "ports", RepMsg("ContainerPort")),
            (7, "env", RepMsg("EnvVar")),
            (8, "resources", Msg("ResourceRequirements")),
            (9, "volumeMounts", RepMsg("VolumeMount")),
            (10, "livenessProbe", OptMsg("Probe")),
            (11, "readinessProbe", OptMsg("Probe")),
            (13, "terminationMessagePath", Str),
            (14, "imagePullPolicy", Str),
            (15, "securityContext", OptMsg("SecurityContext")),
            (16, "stdin", Bool),
            (17, "stdinOnce", Bool),
            (18, "tty", Bool),
            (20, "terminationMessagePolicy", Str),
        ],
        "ContainerPort" => &[
            (1, "name", Str),
            (2, "hostPort", Int),
            (3, "containerPort", Int),
            (4, "protocol", Str),
            (5, "hostIP", Str),
        ],
        "EnvVar" => &[(1, "name", Str), (2, "value", Str), (3, "valueFrom", OptMsg("EnvVarSource"))],
        "EnvVarSource" => {
            &[(1, "fieldRef", OptMsg("ObjectFieldSelector")), (4, "secretKeyRef", OptMsg("SecretKeySelector"))]
        }
        "SecretKeySelector" => &[(1, "", Inline("LocalObjectReference")), (2, "key", Str)],
        "ResourceRequirements" => &[(1, "limits", MapQuantity), (2, "requests", MapQuantity)],
        "VolumeMount" => &[
            (1, "name", Str),
            (2, "readOnly", Bool),
            (3, "mountPath", Str),
            (4, "subPath", Str),
            (6, "subPathExpr", Str),
        ],
        "Probe" => &[
            (1, "", Inline("ProbeHandler")),
            (2, "initialDelaySeconds", Int),
            (3, "timeoutSeconds", Int),
            (4, "periodSeconds", Int),
            (5, "successThreshold", Int),
            (6, "failureThreshold", Int),
        ],
        "ProbeHandler" => &[(2, "httpGet", OptMsg("HTTPGetAction"))],
        "HTTPGetAction" => &[(1, "path", Str), (2, "port", IntOrString), (3, "host", Str), (4, "scheme", Str)],
        "SecurityContext" => &[
            (1, "capabilities", OptMsg("Capabilities")),
            (5, "runAsNonRoot", OptBool),
            (6, "readOnlyRootFilesystem", OptBool),
            (7, "allowPrivilegeEscalation", OptBool),
        ],
        "Capabilities" => &[(1, "add", RepStr), (2, "drop", RepStr)],
        "PodSecurityContext" => &[(5, "fsGroup", OptInt), (10, "seccompProfile", OptMsg("SeccompProfile"))],
        "SeccompProfile" => &[(1, "type", Str)],
        "Toleration" => &[
            (1, "key", Str),
            (2, "operator", Str),
            (3, "value", Str),
            (4, "effect", Str),
            (5, "tolerationSeconds", OptInt),
        ],
        "PodStatus" => &[
            (1, "phase", Str),
            (2, "conditions", RepMsg("PodCondition")),
            (3, "message", Str),
            (4, "reason", Str),
            (5, "hostIP", Str),
            (6, "podIP", Str),
            (7, "startTime", OptTime),
            (8, "containerStatuses", RepMsg("ContainerStatus")),
            (9, "qosClass", Str),
            (11, "nominatedNodeName", Str),
            (12, "podIPs", RepMsg("IP")),
            (14, "resize", Str),
            (16, "hostIPs", RepMsg("IP")),
            (17, "observedGeneration", Int),
        ],
        "IP" => &[(1, "ip", Str)],
        "PodCondition" => &[
            (1, "type", Str),
            (2, "status", Str),
            (3, "lastProbeTime", Time),
            (4, "lastTransitionTime", Time),
            (5, "reason", Str),
            (6, "message", Str),
            (7, "observedGeneration", Int),
        ],
        "ContainerStatus" => &[
            (1, "name", Str),
            (2, "state", Msg("ContainerState")),
            (3, "lastState", Msg("ContainerState")),
            (4, "ready", Bool),
            (5, "restartCount", Int),
            (6, "image", Str),
            (7, "imageID", Str),
            (8, "containerID", Str),
            (9, "started", OptBool),
        ],
        "ContainerState" => {
            &[(2, "running", OptMsg("ContainerStateRunning")), (3, "terminated", OptMsg("ContainerStateTerminated"))]
        }
        "ContainerStateRunning" => &[(1, "startedAt", Time)],
        "ContainerStateTerminated" => &[
            (1, "exitCode", Int),
            (2, "signal", Int),
            (3, "reason", Str),
            (4, "message", Str),
            (5, "startedAt", Time),
            (6, "finishedAt", Time),
            (7, "containerID", Str),
        ],
        _ => panic!("no schema for {m}"),
    }
}

pub fn varint(o: &mut Vec<u8>, mut v: u64) {
    while v >= 0x80 {
        o.push(v as u8 | 0x80);
        v >>= 7;
    }
    o.push(v as u8);
}
pub fn varint_len(v: u64) -> usize {
    (64 - (v | 1).leading_zeros() as usize).div_ceil(7)
}
pub fn bytes(o: &mut Vec<u8>, tag: u32, b: &[u8]) {
    varint(o, (tag << 3 | 2) as u64);
    varint(o, b.len() as u64);
    o.extend_from_slice(b);
}
fn int(o: &mut Vec<u8>, tag: u32, v: i64) {
    varint(o, (tag << 3) as u64);
    varint(o, v as u64);
}

/// seconds since 1970 of "YYYY-MM-DDTHH:MM:SSZ"
fn unix(s: &str) -> i64 {
    let f = |a: usize, b: usize| s[a..b].parse::<i64>().unwrap();
    let (y, m, d) = (f(0, 4), f(5, 7), f(8, 10));
    let (y2, m2) = if m <= 2 { (y - 1, m + 9) } else { (y, m - 3) };
    let era = y2 / 400;
    let yoe = y2 - era * 400;
    let doy = (153 * m2 + 2) / 5 + d - 1;
    let doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
    (era * 146097 + doe - 719468) * 86400 + f(11, 13) * 3600 + f(14, 16) * 60 + f(17, 19)
}
fn timestamp(s: &str) -> Vec<u8> {
    let mut b = Vec::with_capacity(8);
    int(&mut b, 1, unix(s));
    int(&mut b, 2, 0);
    b
}

pub fn message(o: &mut Vec<u8>, name: &str, v: &Value) {
    let null = Value::Null;
    for &(tag, key, kind) in schema(name) {
        let f = if key.is_empty() { v } else { v.get(key).unwrap_or(&null) };
        match kind {
            Str => bytes(o, tag, f.as_str().unwrap_or("").as_bytes()),
            Int => int(o, tag, f.as_i64().unwrap_or(0)),
            Bool => int(o, tag, f.as_bool().unwrap_or(false) as i64),
            Time => bytes(o, tag, &f.as_str().map(timestamp).unwrap_or_default()),
            Msg(m) | Inline(m) => {
                let mut b = Vec::new();
                message(&mut b, m, f);
                bytes(o, tag, &b)
            }
            IntOrString => {
                let mut b = Vec::new();
                int(&mut b, 1, f.is_string() as i64);
                int(&mut b, 2, f.as_i64().unwrap_or(0));
                bytes(&mut b, 3, f.as_str().unwrap_or("").as_bytes());
                bytes(o, tag, &b)
            }
            _ if f.is_null() => {}
            OptInt => int(o, tag, f.as_i64().unwrap()),
            OptBool => int(o, tag, f.as_bool().unwrap() as i64),
            OptStr => bytes(o, tag, f.as_str().unwrap().as_bytes()),
            OptTime => bytes(o, tag, &timestamp(f.as_str().unwrap())),
            OptMsg(m) => {
                let mut b = Vec::new();
                message(&mut b, m, f);
                bytes(o, tag, &b)
            }
            RepStr => f.as_array().unwrap().iter().for_each(|s| bytes(o, tag, s.as_str().unwrap().as_bytes())),
            RepMsg(m) => {
                for e in f.as_array().unwrap() {
                    let mut b = Vec::new();
                    message(&mut b, m, e);
                    bytes(o, tag, &b)
                }
            }
            MapStr | MapQuantity => {
                let mut e: Vec<_> = f.as_object().unwrap().iter().collect();
                e.sort_by(|a, b| a.0.cmp(b.0));
                for (k, val) in e {
                    let mut b = Vec::new();
                    bytes(&mut b, 1, k.as_bytes());
                    let s = val.as_str().unwrap().as_bytes();
                    if matches!(kind, MapStr) {
                        bytes(&mut b, 2, s);
                    } else {
                        let mut q = Vec::new();
                        bytes(&mut q, 1, s);
                        bytes(&mut b, 2, &q);
                    }
                    bytes(o, tag, &b)
                }
            }
            Fields => {
                let mut b = Vec::new();
                bytes(&mut b, 1, serde_json::to_string(f).unwrap().as_bytes());
                bytes(o, tag, &b)
            }
        }
    }
}

/// `k8s\0` + runtime.Unknown around an encoded object
pub fn envelope_head(o: &mut Vec<u8>, api_version: &str, kind: &str, raw_len: usize) {
    o.extend_from_slice(b"k8s\0");
    let mut t = Vec::new();
    bytes(&mut t, 1, api_version.as_bytes());
    bytes(&mut t, 2, kind.as_bytes());
    bytes(o, 1, &t);
    varint(o, 2 << 3 | 2);
    varint(o, raw_len as u64);
}
pub const ENVELOPE_TAIL: &[u8] = &[3 << 3 | 2, 0, 4 << 3 | 2, 0];

/// metav1.WatchEvent with its 4-byte length frame
pub fn watch_frame(o: &mut Vec<u8>, ty: &str, api_version: &str, kind: &str, raw: &[u8]) {
    let mut env = Vec::with_capacity(raw.len() + 64);
    envelope_head(&mut env, api_version, kind, raw.len());
    env.extend_from_slice(raw);
    env.extend_from_slice(ENVELOPE_TAIL);
    let mut ext = Vec::with_capacity(env.len() + 8);
    bytes(&mut ext, 1, &env);
    let mut ev = Vec::with_capacity(ext.len() + 24);
    bytes(&mut ev, 1, ty.as_bytes());
    bytes(&mut ev, 2, &ext);
    o.extend_from_slice(&(ev.len() as u32).to_be_bytes());
    o.extend_from_slice(&ev);
}
