//! Validation of updates of jobs and their status, with the messages of the real server.

use crate::client::{server, text};
use crate::validation::{causes, check_change};
use crate::validation_status::check_steps;

const JOB: &str = r#""template":{"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"i"}]}}"#;

fn job(name: &str, spec: &str) -> String {
    format!(r#"{{"apiVersion":"batch/v1","kind":"Job","metadata":{{"name":"{name}"}},"spec":{{{spec}{JOB}}}}}"#)
}

#[tokio::test]
async fn the_status_of_jobs_is_checked() {
    let (_server, mut client) = server().await;
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let steps: &[(&str, &[&str])] = &[
        (
            r#"{"active":-1,"ready":2,"terminating":-3,"uncountedTerminatedPods":{"succeeded":["a","a"],"failed":["","a"]}}"#,
            &[
                "status.active: Invalid value: -1: must be greater than or equal to 0",
                "status.terminating: Invalid value: -3: must be greater than or equal to 0",
                r#"status.uncountedTerminatedPods.succeeded[1]: Duplicate value: "a""#,
                r#"status.uncountedTerminatedPods.failed[0]: Invalid value: "": must not be empty"#,
                r#"status.uncountedTerminatedPods.failed[1]: Duplicate value: "a""#,
                "status.ready: Invalid value: 2: cannot set more ready pods than active",
            ],
        ),
        (
            r#"{"completedIndexes":"0","failedIndexes":"1","completionTime":"2026-01-01T00:00:00Z"}"#,
            &[
                r#"status.completionTime: Invalid value: "2026-01-01T00:00:00Z": cannot set completionTime when there is no Complete=True condition"#,
                r#"status.completedIndexes: Invalid value: "0": cannot set non-empty completedIndexes when non-indexed completion mode"#,
                r#"status.failedIndexes: Invalid value: "1": cannot set non-null failedIndexes when backoffLimitPerIndex is null"#,
            ],
        ),
        (r#"{"startTime":"2026-01-02T00:00:00Z","active":1,"failed":1,"succeeded":1}"#, &[]),
        (
            r#"{"startTime":"2026-01-03T00:00:00Z","failed":0,"succeeded":0}"#,
            &[
                "status.failed: Invalid value: 0: cannot decrease the failed counter",
                "status.succeeded: Invalid value: 0: cannot decrease the succeeded counter",
                "status.startTime: Required value: startTime cannot be removed for unsuspended job",
            ],
        ),
        (
            r#"{"conditions":[{"type":"Complete","status":"True"},{"type":"Failed","status":"True"}],"uncountedTerminatedPods":{"failed":["u"]}}"#,
            &[
                "status.conditions: Invalid value: cannot set Complete=True and Failed=true conditions",
                "status.completionTime: Required value: completionTime is required for Complete jobs",
                "status.conditions: Invalid value: cannot set Failed=True condition without the FailureTarget=true condition",
                "status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
                "status.active: Invalid value: 1: active>0 is invalid for finished job",
                r#"status.uncountedTerminatedPods: Invalid value: {"Succeeded":null,"Failed":["u"]}: uncountedTerminatedPods needs to be empty for finished job"#,
            ],
        ),
        (
            r#"{"active":0,"completionTime":"2026-01-01T00:00:00Z","conditions":[{"type":"SuccessCriteriaMet","status":"True"},{"type":"Complete","status":"True"}]}"#,
            &[
                r#"status.completionTime: Invalid value: "2026-01-01T00:00:00Z": completionTime cannot be set before startTime"#,
            ],
        ),
        (
            r#"{"active":0,"completionTime":"2026-01-03T00:00:00Z","conditions":[{"type":"SuccessCriteriaMet","status":"True"},{"type":"Complete","status":"True"}]}"#,
            &[],
        ),
        (
            r#"{"active":1,"terminating":1,"completionTime":"2026-01-04T00:00:00Z"}"#,
            &[
                "status.active: Invalid value: 1: active>0 is invalid for finished job",
                "status.terminating: Invalid value: 1: terminating>0 is invalid for finished job",
                r#"status.completionTime: Invalid value: "2026-01-04T00:00:00Z": completionTime cannot be mutated"#,
            ],
        ),
        (
            r#"{"completionTime":null,"conditions":[{"type":"FailureTarget","status":"True"}]}"#,
            &[
                "status.conditions: Invalid value: cannot disable the terminal Complete=True condition",
                "status.conditions: Invalid value: cannot disable the SuccessCriteriaMet=True condition",
            ],
        ),
    ];
    check_steps(&mut client, jobs, &job("a", ""), steps).await;
}

#[tokio::test]
async fn indexes_of_jobs_are_checked() {
    let (_server, mut client) = server().await;
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let spec = r#""completionMode":"Indexed","completions":5,"parallelism":5,"backoffLimitPerIndex":1,"#;
    let wrong = |field: &str, text: &str, why: &str| {
        format!("status.{field}: Invalid value: {text:?}: error parsing {field}: {why}")
    };
    let bad_order = [wrong("completedIndexes", "3,1", "non-increasing order, previous: 3, current: 1")];
    let both = [
        wrong("completedIndexes", "0-x", r#"cannot convert string to integer for index: "x""#),
        wrong("failedIndexes", "2-9", r#"too large index: "9""#),
    ];
    let [bad_order, first, second] = [&bad_order[0], &both[0], &both[1]].map(String::as_str);
    let fragment = wrong(
        "completedIndexes",
        "1-2-3",
        r#"the fragment "1-2-3" violates the requirement that an index interval can have at most two parts separated by '-'"#,
    );
    let steps: &[(&str, &[&str])] = &[
        (r#"{"completedIndexes":"3,1"}"#, &[bad_order]),
        (r#"{"completedIndexes":"1-2-3"}"#, &[&fragment]),
        (r#"{"completedIndexes":"0-x","failedIndexes":"2-9"}"#, &[first, second]),
        (
            r#"{"completedIndexes":"0,2-4","failedIndexes":"1,3"}"#,
            &[r#"status.failedIndexes: Invalid value: "1,3": failedIndexes and completedIndexes overlap at index: 3"#],
        ),
        (r#"{"completedIndexes":"0,2-3","failedIndexes":"1,4","succeeded":3}"#, &[]),
        // The job may have been scaled down.
        (r#"{"completedIndexes":"0","failedIndexes":"1","succeeded":1}"#, &[]),
    ];
    check_steps(&mut client, jobs, &job("a", spec), steps).await;
    let policy = r#""completionMode":"Indexed","completions":2,"parallelism":2,"successPolicy":{"rules":[{"succeededCount":1}]},"#;
    let steps: &[(&str, &[&str])] = &[(
        r#"{"startTime":"2026-01-02T00:00:00Z","completionTime":"2026-01-03T00:00:00Z","conditions":[{"type":"Complete","status":"True"}]}"#,
        &[
            "status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
            "status.conditions: Invalid value: cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True",
        ],
    )];
    check_steps(&mut client, jobs, &job("b", policy), steps).await;
}

#[tokio::test]
async fn most_job_fields_are_immutable() {
    let (_server, mut client) = server().await;
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let indexed = r#""completionMode":"Indexed","completions":2,"parallelism":2,"#;
    let tandem = "spec.completions: Invalid value: 3: can only be modified in tandem with spec.parallelism";
    let image = r#"{"spec":{"template":{"spec":{"containers":[{"name":"c","image":"j"}]}}}}"#;
    let place = r#"{"spec":{"template":{"metadata":{"annotations":{"a":"b"}},"spec":{"nodeSelector":{"a":"b"},"affinity":{"nodeAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[{"weight":1,"preference":{"matchExpressions":[{"key":"k","operator":"Exists"}]}}]}}}}}}"#;
    for (spec, patch, want) in [
        (indexed, r#"{"spec":{"completions":3}}"#, Some(tandem)),
        (indexed, r#"{"spec":{"completions":3,"parallelism":3}}"#, None),
        (
            "",
            r#"{"spec":{"completions":3,"parallelism":3}}"#,
            Some("spec.completions: Invalid value: 3: field is immutable"),
        ),
        (
            "",
            r#"{"spec":{"managedBy":"a.example.com/b"}}"#,
            Some(r#"spec.managedBy: Invalid value: "a.example.com/b": field is immutable"#),
        ),
        (r#""suspend":true,"#, place, None),
    ] {
        let want: Vec<&str> = want.into_iter().collect();
        check_change(&mut client, jobs, &job("x", spec), patch, &want).await;
    }
    let long = "x".repeat(60);
    let unnamed = format!(
        r#"metadata.name: Invalid value: "{long}": will not able to create pod with invalid DNS label: {long}-999"#
    );
    let larger = r#"{"spec":{"completions":1000,"parallelism":1000}}"#;
    check_change(&mut client, jobs, &job(&long, indexed), larger, &[&unnamed]).await;
    for (spec, patch) in [("", place), (r#""suspend":true,"#, image)] {
        assert_eq!(client.call("POST", jobs, &job("t", spec)).await.0, 201);
        let (code, refused) = client.call("PATCH", &format!("{jobs}/t"), patch).await;
        assert_eq!(code, 422, "{refused}");
        let message = text(&refused, "message");
        assert!(
            message.contains("spec.template: Invalid value") && message.ends_with("field is immutable"),
            "{message}"
        );
        client.call("DELETE", &format!("{jobs}/t"), "").await;
    }
}

#[tokio::test]
async fn job_selectors_must_match_only_their_own_pods() {
    let (_server, mut client) = server().await;
    let path = "/apis/batch/v1/namespaces/default/jobs";
    let job = |name: &str, spec: &str, labels: &str| {
        format!(
            r#"{{"apiVersion":"batch/v1","kind":"Job","metadata":{{"name":"{name}"}},"spec":{{{spec}"template":{{"metadata":{{"labels":{{{labels}}}}},"spec":{{"restartPolicy":"Never","containers":[{{"name":"c","image":"i"}}]}}}}}}}}"#
        )
    };
    let long = "x".repeat(60);
    for (name, spec, labels, want) in [
        ("a", r#""manualSelector":true,"selector":{"matchLabels":{"a":"b"}},"#, r#""a":"b""#, vec![]),
        ("a", r#""manualSelector":true,"#, r#""a":"b""#, vec!["spec.selector: Required value", UNMATCHED]),
        (
            "a",
            r#""manualSelector":true,"selector":{"matchLabels":{"a":"b"}},"#,
            r#""a":"c""#,
            vec![
                r#"spec.template.metadata.labels: Invalid value: {"a":"c"}: `selector` does not match template `labels`"#,
            ],
        ),
        (
            &long,
            r#""completionMode":"Indexed","completions":1000,"#,
            "",
            vec![
                "metadata.name: Invalid value: \"<long>\": will not able to create pod with invalid DNS label: <long>-999",
            ],
        ),
    ] {
        let (code, answer) = client.call("POST", &format!("{path}?dryRun=All"), &job(name, spec, labels)).await;
        let found: Vec<String> = causes(&answer).iter().map(|cause| cause.replace(&long, "<long>")).collect();
        assert_eq!(found, want, "{spec}: {answer}");
        assert_eq!(code, if want.is_empty() { 201 } else { 422 }, "{spec}: {answer}");
    }
    // A client-defined selector without `manualSelector` does not match the generated labels.
    let chosen = job("a", r#""selector":{"matchLabels":{"a":"b"}},"#, r#""a":"b""#);
    let (code, answer) = client.call("POST", &format!("{path}?dryRun=All"), &chosen).await;
    assert_eq!(code, 422, "{answer}");
    let found = causes(&answer);
    assert!(
        matches!(&found[..], [one] if one.starts_with("spec.selector: ") && one.ends_with("`selector` not auto-generated")),
        "{found:?}"
    );
    let labelled = job("a", "", r#""job-name":"b""#);
    let (_, answer) = client.call("POST", &format!("{path}?dryRun=All"), &labelled).await;
    let found: Vec<String> = causes(&answer).iter().map(|cause| cause.split(": ").next().unwrap().to_owned()).collect();
    assert_eq!(found, ["spec.template.metadata.labels[job-name]"], "{answer}");
    let (code, made) = client.call("POST", path, &job("a", "", r#""job-name":"a""#)).await;
    assert!(code == 201 && made.to_string().contains(r#""batch.kubernetes.io/job-name":"a""#), "{made}");
}

const UNMATCHED: &str =
    "spec.template.metadata.labels: Invalid value: {\"a\":\"b\"}: `selector` does not match template `labels`";
