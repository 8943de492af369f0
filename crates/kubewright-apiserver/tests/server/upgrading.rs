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
