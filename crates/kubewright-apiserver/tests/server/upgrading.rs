//! Objects that an earlier server stored: what was right then can still be changed.

use redb::{Database, ReadableTable, TableDefinition};

use crate::client::text;
use crate::durable::{Directory, start};

const PODS: &str = "/api/v1/namespaces/default/pods";
const JOBS: &str = "/apis/batch/v1/namespaces/default/jobs";
/// Objects as JSON by resource and path.
const OBJECTS: TableDefinition<'_, (&str, &str), (u64, &[u8])> = TableDefinition::new("objects");

/// Puts other words into all stored objects of a resource, each of which has to be there.
fn rewrite(directory: &Directory, resource: &str, words: &[(&str, &str)]) {
    let database = Database::open(directory.0.join("objects.redb")).expect("its server has stopped");
    let transaction = database.begin_write().expect("nobody else writes");
    {
        let mut objects = transaction.open_table(OBJECTS).expect("it has objects");
        let all = objects.iter().expect("they can be read").map(|entry| entry.expect("it can be read"));
        let all: Vec<_> = all
            .filter(|(key, _)| key.value().0.starts_with(resource))
            .map(|(key, value)| {
                let (revision, json) = value.value();
                let json = String::from_utf8(json.to_vec()).expect("it is text");
                (key.value().1.to_owned(), key.value().0.to_owned(), revision, json)
            })
            .collect();
        assert!(!all.is_empty(), "{resource}");
        for (path, resource, revision, mut json) in all {
            for (from, to) in words {
                assert!(json.contains(from), "{from}: {json}");
                json = json.replace(from, to);
            }
            objects.insert((&*resource, &*path), (revision, json.as_bytes())).expect("there is room");
        }
    }
    transaction.commit().expect("it can be written");
}

#[tokio::test]
async fn what_lacks_the_defaults_of_today_can_be_changed() {
    let directory = Directory::new("lacking");
    let (server, mut client) = start(&directory).await;
    let containers = r#""containers":[{"name":"c","image":"i","resources":{"requests":{"cpu":"3m"}},
        "env":[{"name":"A","valueFrom":{"fileKeyRef":{"volumeName":"v","path":"p","key":"k"}}}]}],
        "volumes":[{"name":"v","emptyDir":{}}]"#;
    let pod = format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"p"}},"spec":{{"resources":{{"limits":{{"memory":"7Mi"}}}},{containers}}}}}"#
    );
    let (code, made) = client.call("POST", PODS, &pod).await;
    assert_eq!(code, 201, "{made}");
    let job = format!(
        r#"{{"apiVersion":"batch/v1","kind":"Job","metadata":{{"name":"j"}},"spec":{{"template":{{"spec":{{"restartPolicy":"Never",{containers}}}}}}}}}"#
    );
    let (code, made) = client.call("POST", JOBS, &job).await;
    assert_eq!(code, 201, "{made}");
    drop(client);
    server.stop().await;
    let older = [(r#"{"cpu":"3m"}"#, r#"{"cpu":"2100u"}"#), (r#","optional":false"#, "")];
    rewrite(&directory, "jobs", &older);
    rewrite(&directory, "pods", &older);
    rewrite(&directory, "pods", &[(r#","requests":{"cpu":"3m","memory":"7Mi"}"#, "")]);

    let (_server, mut client) = start(&directory).await;
    for path in [format!("{PODS}/p"), format!("{JOBS}/j")] {
        let (code, changed) = client.call("PATCH", &path, r#"{"metadata":{"labels":{"a":"b"}}}"#).await;
        assert_eq!(code, 200, "{changed}");
        assert_eq!(text(&changed, "metadata/generation"), "1", "nobody has changed what it says: {changed}");
        assert!(changed.to_string().contains(r#"{"cpu":"3m"}"#), "{changed}");
    }
    let (code, refused) = client.call("PATCH", &format!("{PODS}/p"), r#"{"spec":{"hostname":"h"}}"#).await;
    assert_eq!(code, 422, "{refused}");
}

#[tokio::test]
async fn what_was_wrong_before_there_was_a_rule_may_stay() {
    let directory = Directory::new("lenient");
    let (server, mut client) = start(&directory).await;
    let expression = r#"[{"matchExpressions":[{"key":"k","operator":"In","values":["good"]}]}]"#;
    let spec = format!(
        r#"{{"hostnameOverride":"host","containers":[{{"name":"c","image":"i"}}],"affinity":{{"nodeAffinity":
        {{"requiredDuringSchedulingIgnoredDuringExecution":{{"nodeSelectorTerms":{expression}}}}}}}}}"#
    );
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let volumes = "/api/v1/persistentvolumes";
    for (path, object) in [
        (PODS, format!(r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"o"}},"spec":{spec}}}"#)),
        (
            deployments,
            format!(
                r#"{{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"o"}},"spec":{{"selector":{{"matchLabels":
                {{"a":"b"}}}},"template":{{"metadata":{{"labels":{{"a":"b"}}}},"spec":{spec}}}}}}}"#
            ),
        ),
        (
            volumes,
            format!(
                r#"{{"apiVersion":"v1","kind":"PersistentVolume","metadata":{{"name":"o"}},"spec":{{"capacity":{{"storage":"1Gi"}},
                "accessModes":["ReadWriteOnce"],"hostPath":{{"path":"/a"}},"nodeAffinity":{{"required":{{"nodeSelectorTerms":{expression}}}}}}}}}"#
            ),
        ),
    ] {
        let (code, made) = client.call("POST", path, &object).await;
        assert_eq!(code, 201, "{made}");
    }
    drop(client);
    server.stop().await;
    let labels = (r#"["good"]"#, r#"["not/good"]"#);
    rewrite(&directory, "persistentvolumes", &[labels]);
    for resource in ["pods", "deployments"] {
        rewrite(&directory, resource, &[labels, (r#""hostnameOverride":"host""#, r#""hostnameOverride":"Host""#)]);
    }

    let (_server, mut client) = start(&directory).await;
    for path in [PODS, deployments, volumes] {
        let (code, changed) = client.call("PATCH", &format!("{path}/o"), r#"{"metadata":{"labels":{"x":"y"}}}"#).await;
        assert_eq!(code, 200, "{changed}");
        assert!(changed.to_string().contains("not/good"), "{changed}");
    }
    let deployment = format!("{deployments}/o");
    let merge = "application/merge-patch+json";
    let template = |spec: &str| format!(r#"{{"spec":{{"template":{{"spec":{{{spec}}}}}}}}}"#);
    let terms = expression.replace("good", "worse/still");
    let other = template(&format!(
        r#""affinity":{{"nodeAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":{{"nodeSelectorTerms":{terms}}}}}}}"#
    ));
    let (code, changed) = client.call_with(merge, "PATCH", &deployment, &other).await;
    assert_eq!(code, 200, "one such label stands for all: {changed}");
    let (code, refused) =
        client.call_with(merge, "PATCH", &deployment, &template(r#""hostnameOverride":"Other""#)).await;
    assert_eq!(code, 422, "this is a new mistake: {refused}");
}
