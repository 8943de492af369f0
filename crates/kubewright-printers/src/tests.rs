use super::*;

const NOW: &str = "2025-10-01T12:00:00Z";

fn options() -> RowOptions {
    RowOptions { now: NOW.parse().unwrap(), ..RowOptions::default() }
}

fn printer(group: &str, plural: &str) -> Printer {
    let resources = kubewright_api::resources();
    let found = resources.into_iter().find(|info| info.kind.group == group && info.plural == plural);
    Printer::for_resource(found.unwrap_or_else(|| panic!("{group}/{plural}")))
}

fn cells(group: &str, plural: &str, object: &str) -> String {
    let object = object.parse().unwrap_or_else(|error| panic!("{object}: {error}"));
    printer(group, plural).row(&object, &options()).get("cells").unwrap().to_string()
}

#[test]
fn an_empty_object_has_a_cell_for_each_column() {
    for info in kubewright_api::resources().into_iter().filter(|info| info.has_verb("list")) {
        let printer = Printer::for_resource(info);
        let columns = printer.columns().as_array().unwrap().len();
        let row = printer.row(&Value::Object([("metadata", Value::Null)].into()), &options());
        let cells = row.get("cells").and_then(Value::as_array).unwrap().len();
        // The real server also has one cell too many here.
        let more = usize::from(info.plural == "ipaddresses");
        assert_eq!(cells, columns + more, "{}", info.plural);
        printer.row(&Value::Null, &options());
    }
}

#[test]
fn pods_show_what_their_containers_say() {
    let pod = |spec: &str, status: &str| {
        let object = format!(
            r#"{{"metadata":{{"name":"p"}},"spec":{{"containers":[{{"name":"c"}}]{spec}}},"status":{{{status}}}}}"#
        );
        let object = object.parse().unwrap();
        let row = printer("", "pods").row(&object, &options());
        let cells = row.get("cells").and_then(Value::as_array).unwrap();
        format!("{} {} {}", cells[1].as_str().unwrap(), cells[2].as_str().unwrap(), cells[3].as_str().unwrap())
    };
    let sidecar = r#","initContainers":[{"name":"s","restartPolicy":"Always"}]"#;
    for (spec, status, want) in [
        ("", r#""phase":"Pending""#, "0/1 Pending 0"),
        (
            "",
            r#""phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"SchedulingGated"}]"#,
            "0/1 SchedulingGated 0",
        ),
        (
            "",
            r#""phase":"Running","containerStatuses":[{"ready":true,"restartCount":3,"state":{"running":{}},"lastState":{"terminated":{"finishedAt":"2025-10-01T11:55:00Z"}}}]"#,
            "1/1 Running 3 (5m ago)",
        ),
        (
            "",
            r#""phase":"Running","containerStatuses":[{"state":{"terminated":{"signal":9,"exitCode":137}}}]"#,
            "0/1 Signal:9 0",
        ),
        (
            "",
            r#""phase":"Running","conditions":[{"type":"Ready","status":"True"}],"containerStatuses":[{"state":{"terminated":{"reason":"Completed"}}},{"ready":true,"state":{"running":{}}}]"#,
            "1/1 Running 0",
        ),
        (
            "",
            r#""phase":"Running","containerStatuses":[{"state":{"terminated":{"reason":"Completed"}}},{"ready":true,"state":{"running":{}}}]"#,
            "1/1 NotReady 0",
        ),
        (
            sidecar,
            r#""phase":"Running","initContainerStatuses":[{"name":"s","started":true,"ready":true,"restartCount":2}],"containerStatuses":[{"ready":true,"restartCount":1,"state":{"running":{}}}]"#,
            "2/2 Running 3",
        ),
        (
            r#","initContainers":[{"name":"i"}]"#,
            r#""phase":"Pending","initContainerStatuses":[{"name":"i","restartCount":4,"state":{"waiting":{"reason":"CrashLoopBackOff"}}}]"#,
            "0/1 Init:CrashLoopBackOff 4",
        ),
        (
            r#","initContainers":[{"name":"i"}]"#,
            r#""phase":"Failed","initContainerStatuses":[{"name":"i","state":{"terminated":{"exitCode":2}}}]"#,
            "0/1 Init:ExitCode:2 0",
        ),
    ] {
        assert_eq!(pod(spec, status), want, "{spec} {status}");
    }
}

#[test]
fn pods_that_have_ended_are_marked_so() {
    let pod = r#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"p"},"status":{"phase":"Succeeded"}}"#;
    let row = printer("", "pods").row(&pod.parse().unwrap(), &options());
    assert!(row.get("conditions").unwrap().to_string().contains(r#""reason":"Succeeded""#));
}

#[test]
fn kinds_are_printed_as_the_server_prints_them() {
    for (group, plural, object, want) in [
        (
            "",
            "services",
            r#"{"spec":{"type":"LoadBalancer","clusterIPs":["10.0.0.1"],"externalIPs":["9.9.9.9"],"ports":[{"port":80,"nodePort":30080,"protocol":"TCP"}]},"status":{"loadBalancer":{"ingress":[{"hostname":"b"},{"ip":"a"}]}}}"#,
            r#"["","LoadBalancer","10.0.0.1","a,b,9.9.9.9","80:30080/TCP","<unknown>","<none>"]"#,
        ),
        (
            "",
            "endpoints",
            r#"{"subsets":[{"addresses":[{"ip":"1.1.1.1"},{"ip":"::1"}],"ports":[{"port":80},{"port":81}]}]}"#,
            r#"["","1.1.1.1:80,[::1]:80,1.1.1.1:81 + 1 more...","<unknown>"]"#,
        ),
        (
            "discovery.k8s.io",
            "endpointslices",
            r#"{"addressType":"IPv4","ports":[{"port":80},{"name":"x"},{}],"endpoints":[]}"#,
            r#"["","IPv4","80,x,*","<unset>","<unknown>"]"#,
        ),
        (
            "",
            "nodes",
            r#"{"metadata":{"name":"n","creationTimestamp":"2025-09-30T12:00:00Z","labels":{"node-role.kubernetes.io/worker":"","node-role.kubernetes.io/":"","kubernetes.io/role":"edge"}},"spec":{"unschedulable":true},"status":{"conditions":[{"type":"Ready","status":"Unknown"}],"addresses":[{"type":"InternalIP","address":"10.1.1.1"}],"nodeInfo":{"kernelVersion":"6.1","architecture":"amd64"}}}"#,
            r#"["n","NotReady,SchedulingDisabled","edge,worker","24h","","10.1.1.1","<none>","<unknown>","6.1 (amd64)","<unknown>"]"#,
        ),
        (
            "",
            "persistentvolumeclaims",
            r#"{"metadata":{"name":"c","deletionTimestamp":"2025-09-30T12:00:00Z"},"spec":{"volumeName":"v","storageClassName":"fast"},"status":{"phase":"Bound","accessModes":["ReadWriteMany","ReadWriteOnce"],"capacity":{"storage":"1Gi"}}}"#,
            r#"["c","Terminating","v","1Gi","RWO,RWX","fast","<unset>","<unknown>","<unset>"]"#,
        ),
        (
            "",
            "resourcequotas",
            r#"{"status":{"hard":{"pods":"4","limits.cpu":"2","count/services":"1"},"used":{"pods":"1"}}}"#,
            r#"["","count/services: 0/1, pods: 1/4","limits.cpu: 0/2","<unknown>"]"#,
        ),
        (
            "",
            "events",
            r#"{"metadata":{"name":"e"},"type":"Normal","reason":"R","message":" m\n","involvedObject":{"kind":"Pod","name":"p"},"source":{"component":"kubelet","host":"n1"},"firstTimestamp":"2025-10-01T11:00:00Z","lastTimestamp":"2025-10-01T11:59:00Z","count":7}"#,
            r#"["60s","Normal","R","pod/p","","kubelet, n1","m","60m",7,"e"]"#,
        ),
        (
            "events.k8s.io",
            "events",
            r#"{"metadata":{"name":"e"},"type":"Normal","reason":"R","note":"m","regarding":{"kind":"Pod","name":"p"},"reportingController":"x","eventTime":"2025-10-01T11:58:30.000000Z"}"#,
            r#"["90s","Normal","R","pod/p","","x","m","90s",1,"e"]"#,
        ),
        (
            "autoscaling",
            "horizontalpodautoscalers",
            r#"{"spec":{"scaleTargetRef":{"kind":"Deployment","name":"w"},"targetCPUUtilizationPercentage":80,"maxReplicas":3},"status":{"currentReplicas":1}}"#,
            r#"["","Deployment/w","cpu: <unknown>/80%","<unset>",3,1,"<unknown>"]"#,
        ),
        (
            "policy",
            "poddisruptionbudgets",
            r#"{"spec":{"minAvailable":"50%"},"status":{"disruptionsAllowed":2}}"#,
            r#"["","50%","N/A",2,"<unknown>"]"#,
        ),
        (
            "batch",
            "jobs",
            r#"{"spec":{"parallelism":3},"status":{"succeeded":1,"startTime":"2025-10-01T11:00:00Z","completionTime":"2025-10-01T11:00:45Z","conditions":[{"type":"Complete","status":"True"}]}}"#,
            r#"["","Complete","1/1 of 3","45s","<unknown>","","","<none>"]"#,
        ),
        (
            "networking.k8s.io",
            "ingresses",
            r#"{"spec":{"rules":[{"host":"a"},{"host":"b"},{"host":"c"},{"host":"d"},{}]}}"#,
            r#"["","<none>","a,b,c + 2 more...","","80","<unknown>"]"#,
        ),
        (
            "networking.k8s.io",
            "networkpolicies",
            r#"{"spec":{"podSelector":{"matchExpressions":[{"key":"a","operator":"In","values":["x","y"]}]}}}"#,
            r#"["","a in (x,y)","<unknown>"]"#,
        ),
        (
            "rbac.authorization.k8s.io",
            "rolebindings",
            r#"{"roleRef":{"kind":"Role","name":"r"},"subjects":[{"kind":"User","name":"u"},{"kind":"User","name":"v"},{"kind":"ServiceAccount","name":"s","namespace":"n"}]}"#,
            r#"["","Role/r","<unknown>","u, v","","n/s"]"#,
        ),
        (
            "rbac.authorization.k8s.io",
            "clusterroles",
            r#"{"metadata":{"name":"r","creationTimestamp":"2025-10-01T11:00:00Z"}}"#,
            r#"["r","2025-10-01T11:00:00Z"]"#,
        ),
        (
            "certificates.k8s.io",
            "certificatesigningrequests",
            r#"{"spec":{"signerName":"s","username":"u","expirationSeconds":3600},"status":{"certificate":"x","conditions":[{"type":"Approved","status":"True"}]}}"#,
            r#"["","<unknown>","s","u","60m","Approved,Issued"]"#,
        ),
        (
            "storage.k8s.io",
            "storageclasses",
            r#"{"metadata":{"name":"s","annotations":{"storageclass.kubernetes.io/is-default-class":"true"}},"provisioner":"p"}"#,
            r#"["s (default)","p","Delete","Immediate",false,"<unknown>"]"#,
        ),
        (
            "apiregistration.k8s.io",
            "apiservices",
            r#"{"spec":{"service":{"namespace":"n","name":"s"}},"status":{"conditions":[{"type":"Available","status":"False","reason":"Gone"}]}}"#,
            r#"["","n/s","False (Gone)","<unknown>"]"#,
        ),
        (
            "apps",
            "controllerrevisions",
            r#"{"metadata":{"name":"c","ownerReferences":[{"apiVersion":"apps/v1","kind":"DaemonSet","name":"d","controller":true}]},"revision":4}"#,
            r#"["c","daemonset.apps/d",4,"<unknown>"]"#,
        ),
    ] {
        assert_eq!(cells(group, plural, object), want, "{plural}");
    }
}

#[test]
fn cells_equal_those_of_go() {
    for (group, plural, object, want) in [
        (
            "",
            "services",
            r#"{"spec":{"type":"ClusterIP","selector":{"app":"web","app.example/tier":"a","app-x":"b"}}}"#,
            r#""app-x=b,app.example/tier=a,app=web""#,
        ),
        (
            "",
            "persistentvolumeclaims",
            r#"{"status":{"phase":"Pending"},"spec":{"volumeAttributesClassName":""}}"#,
            r#"["","Pending","","","","","","<unknown>","<unset>"]"#,
        ),
        (
            "admissionregistration.k8s.io",
            "validatingadmissionpolicybindings",
            r#"{"spec":{"policyName":"p","paramRef":{"selector":{"matchLabels":{"a":"1","b":"2"},"matchExpressions":[{"key":"k","operator":"In","values":["x","y"]}]}}}}"#,
            r#""&LabelSelector{MatchLabels:map[string]string{a: 1,b: 2,},MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:k,Operator:In,Values:[x y],},},}""#,
        ),
        (
            "autoscaling",
            "horizontalpodautoscalers",
            r#"{"spec":{"metrics":[{"type":"External","external":{"target":{"value":"5"}}},{"type":"External","external":{"target":{"averageValue":"5"}}}]},"status":{"currentMetrics":[{"external":{"current":{}}},{"external":{"current":{}}}]}}"#,
            r#""<nil>/5, <unknown>/5 (avg)""#,
        ),
    ] {
        let cells = cells(group, plural, object);
        assert!(cells.contains(want), "{plural}: {cells}");
    }
}

#[test]
fn flow_schemas_are_sorted_by_precedence() {
    let schema = |name: &str, precedence: i64| -> Value {
        let object = format!(r#"{{"metadata":{{"name":"{name}"}},"spec":{{"matchingPrecedence":{precedence}}}}}"#);
        object.parse().unwrap()
    };
    let objects = [schema("a", 900), schema("b", 1), schema("d", 500), schema("c", 500)];
    let printer = printer("flowcontrol.apiserver.k8s.io", "flowschemas");
    let table = printer.table(&Value::Null, &objects, None, &options());
    let rows = table.get("rows").and_then(Value::as_array).unwrap().iter();
    let names: Vec<_> = rows.map(|row| row.get("cells").and_then(Value::as_array).unwrap()[0].to_string()).collect();
    assert_eq!(names, [r#""b""#, r#""c""#, r#""d""#, r#""a""#]);
}

#[test]
fn metrics_beyond_the_second_are_counted() {
    let metric = r#"{"type":"Resource","resource":{"name":"cpu","target":{"averageUtilization":50}}}"#;
    let object = format!(
        r#"{{"spec":{{"metrics":[{metric},{{"type":"Pods","pods":{{"target":{{"averageValue":"5"}}}}}},{metric}]}},"status":{{"currentMetrics":[{{"resource":{{"current":{{"averageUtilization":7}}}}}}]}}}}"#
    );
    let cells = cells("autoscaling", "horizontalpodautoscalers", &object);
    assert!(cells.contains(r#""cpu: 7%/50%, <unknown>/5 + 1 more...""#), "{cells}");
}

#[test]
fn custom_columns_are_typed() {
    let column = |ty: &str, path: &str| {
        let column = format!(r#"{{"name":"C","type":"{ty}","jsonPath":"{path}"}}"#);
        CustomColumn::from_value(&column.parse().unwrap()).unwrap()
    };
    let object = r#"{"metadata":{"name":"n"},"i":3,"f":2.5,"s":"x","o":{"a":[1]},"t":"2025-10-01T11:59:00Z","b":true,"large":2500000.5,"small":0.00001,"m":{"a.b":"dotted"}}"#;
    let object: Value = object.parse().unwrap();
    for (ty, path, want) in [
        ("integer", ".i", "3"),
        ("integer", ".f", "2"),
        ("number", ".f", "2.5"),
        ("string", ".i", "\"3\""),
        ("string", ".s", "\"x\""),
        ("string", ".o", r#""{\"a\":[1]}""#),
        ("date", ".t", "\"60s\""),
        ("date", ".s", "\"<invalid>\""),
        ("boolean", ".b", "true"),
        ("boolean", ".s", "null"),
        ("string", ".none", "null"),
        ("string", ".large", "\"2.5000005e+06\""),
        ("string", ".small", "\"1e-05\""),
        ("string", r".m['a\\.b']", "\"dotted\""),
    ] {
        let printer = Printer::for_columns(&[column(ty, path)]);
        let row = printer.row(&object, &options());
        assert_eq!(row.get("cells").and_then(Value::as_array).unwrap()[1].to_string(), want, "{ty} {path}");
    }
    let names = Printer::for_columns(&[]).columns();
    assert!(names.to_string().contains(r#""name":"Age""#));
}

#[test]
fn a_table_takes_the_metadata_of_its_list() {
    let printer = printer("", "configmaps");
    let metadata = r#"{"resourceVersion":"7","continue":"","remainingItemCount":2,"name":"x"}"#.parse().unwrap();
    let object = r#"{"metadata":{"name":"a"}}"#.parse().unwrap();
    let options = RowOptions { include: Include::None, ..options() };
    let table = printer.table(&metadata, [&object], None, &options);
    assert_eq!(
        table.to_string(),
        r#"{"apiVersion":"meta.k8s.io/v1","columnDefinitions":null,"kind":"Table","metadata":{"remainingItemCount":2,"resourceVersion":"7"},"rows":[{"cells":["a",0,"<unknown>"],"object":null}]}"#
    );
}
