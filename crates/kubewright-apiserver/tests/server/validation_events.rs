//! Validation of events, through either group.

use crate::client::{server, text};
use crate::validation::{check, check_change};

#[tokio::test]
async fn events_of_the_newer_kind_are_checked_in_both_groups() {
    let (_server, mut client) = server().await;
    let (newer, core) = ("/apis/events.k8s.io/v1/namespaces/default/events", "/api/v1/namespaces/default/events");
    let event = |more: &str| {
        format!(
            r#""regarding":{{"kind":"Pod","name":"p","namespace":"other"}},"eventTime":"2020-01-01T00:00:00.000000Z","reportingController":"example.com/c",
            "reportingInstance":"i","action":"A","reason":"R","note":"n","type":"Normal"{more}"#
        )
    };
    let (long, note) = ("l".repeat(129), "n".repeat(1025));
    let lengths = event("")
        .replace(r#""i""#, &format!("{long:?}"))
        .replace(r#""A""#, &format!("{long:?}"))
        .replace(r#""R""#, &format!("{long:?}"))
        .replace(r#""n""#, &format!("{note:?}"));
    let too_long = [
        r#"reportingInstance: Invalid value: "": can have at most 128 characters"#,
        r#"action: Invalid value: "": can have at most 128 characters"#,
        r#"reason: Invalid value: "": can have at most 128 characters"#,
        r#"message: Invalid value: "": can have at most 1024 characters"#,
    ];
    let outdated = r#","deprecatedCount":1,"deprecatedFirstTimestamp":"2020-01-01T00:00:00Z","deprecatedSource":{"host":"h"},"series":{"count":1}"#;
    let table: &[(&str, &[&str])] = &[
        (&event(""), &[]),
        (&event("").replace(r#""n""#, &format!("{:?}", "n".repeat(1024))), &[]),
        (&lengths, &too_long),
        (
            &event("").replace("example.com/c", "my controller"),
            &[
                r#"reportingController: Invalid value: "my controller": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"#,
            ],
        ),
        (
            &event(outdated).replace("Normal", "Odd"),
            &[
                r#"series.count: Invalid value: "": should be at least 2"#,
                "series.lastObservedTime: Required value",
                r#"type: Invalid value: "": has invalid value: Odd"#,
                r#"firstTimestamp: Invalid value: "": needs to be unset"#,
                r#"count: Invalid value: "": needs to be unset"#,
                r#"source: Invalid value: "": needs to be unset"#,
            ],
        ),
        // An event without `eventTime` is old-style, which only the core group accepts.
        (r#""regarding":{"namespace":"default"},"type":"Normal""#, &["eventTime: Required value"]),
    ];
    check(&mut client, newer, "Event", table).await;
    let recorded = format!(
        r#""involvedObject":{{"namespace":"default"}},"eventTime":null,"reportingComponent":"","reportingInstance":"","message":{note:?}"#
    );
    let older: &[(&str, &[&str])] = &[
        // Events as sent by kubectl and event recorders, and one about a cluster-scoped object.
        (&recorded, &[]),
        (r#""involvedObject":{"kind":"Node","name":"n"},"reason":"Ready""#, &[]),
        (
            r#""involvedObject":{"namespace":"other"},"eventTime":"2020-01-01T00:00:00.000000Z","reportingComponent":"c","reportingInstance":"i","count":1"#,
            &["action: Required value", "reason: Required value"],
        ),
    ];
    check(&mut client, core, "Event", older).await;
    // Old-style events can still be updated through the newer group, within its rules.
    let old = format!(r#"{{"apiVersion":"v1","kind":"Event","metadata":{{"name":"Old_One"}},{recorded}}}"#);
    let (code, made) = client.call("POST", core, &old).await;
    assert_eq!(code, 201, "{made}");
    let (code, changed) =
        client.call("PATCH", &format!("{newer}/Old_One"), r#"{"metadata":{"labels":{"seen":"yes"}}}"#).await;
    assert_eq!(code, 200, "{changed}");

    let object =
        format!(r#"{{"apiVersion":"events.k8s.io/v1","kind":"Event","metadata":{{"name":"x"}},{}}}"#, event(""));
    let again = r#"{"series":{"count":2,"lastObservedTime":"2020-01-01T00:01:00.000000Z"},"eventTime":"2020-01-01T01:00:00.000000+01:00"}"#;
    check_change(&mut client, newer, &object, again, &[]).await;
    let changes = r#"{"note":"m","reason":"S","regarding":{"name":"q"},"deprecatedCount":3,"reportingController":"d"}"#;
    let fixed = [
        r#"involvedObject: Invalid value: {"Kind":"Pod","Namespace":"other","Name":"q","UID":"","APIVersion":"","ResourceVersion":"","FieldPath":""}: field is immutable"#,
        r#"reason: Invalid value: "S": field is immutable"#,
        r#"message: Invalid value: "m": field is immutable"#,
        "count: Invalid value: 3: field is immutable",
        r#"reason: Invalid value: "S": field is immutable"#,
        r#"reportingController: Invalid value: "d": field is immutable"#,
    ];
    check_change(&mut client, newer, &object, changes, &fixed).await;
    // Through the core group they can change.
    let (code, made) = client.call("POST", newer, &object).await;
    assert_eq!(code, 201, "{made}");
    let (code, changed) = client.call("PATCH", &format!("{core}/x"), r#"{"message":"m","count":3}"#).await;
    assert_eq!(code, 200, "{changed}");
    let (code, refused) = client.call("POST", newer, &object.replace(r#""x""#, r#""My_Own""#)).await;
    assert!(code == 422 && text(&refused, "message").contains("metadata.name: Invalid value"), "{refused}");
}
