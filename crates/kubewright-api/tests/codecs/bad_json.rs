//! Invalid and hostile JSON causes an error with its position, never a panic or unbounded memory.

use kubewright_api::apiextensions::v1::CustomResourceDefinition;
use kubewright_api::core::v1::{ConfigMap, Pod, Secret};
use kubewright_core::message::Message;
use kubewright_core::{DecodeError, Decoder, DynamicObject, Finding, Object, RawJson, Value};
use proptest::prelude::*;

use crate::samples::POD_JSON;

fn decode<T: Message + Default>(json: impl AsRef<[u8]>) -> Result<T, DecodeError> {
    Decoder::new().json(json.as_ref())
}

fn error<T: Message + Default>(json: impl AsRef<[u8]>) -> String {
    let decoded = decode::<T>(json.as_ref());
    let shown = String::from_utf8_lossy(&json.as_ref()[..json.as_ref().len().min(80)]).into_owned();
    decoded.err().unwrap_or_else(|| panic!("{shown} was decoded")).to_string()
}

#[test]
fn an_error_names_its_position_and_the_expected_type() {
    for (json, wanted) in [
        (
            r#"{"spec":{"containers":[{"name":"a"},{"name":"b","ports":[{"containerPort":"80"}]}]}}"#,
            "spec.containers[1].ports[0].containerPort: expected integer, found string",
        ),
        (r#"{"spec":[]}"#, "spec: expected object, found array"),
        (r#"{"spec":{"containers":{}}}"#, "spec.containers: expected array, found object"),
        (r#"{"spec":{"containers":[true]}}"#, "spec.containers[0]: expected object, found boolean"),
        (r#"{"spec":{"hostNetwork":"true"}}"#, "spec.hostNetwork: expected boolean, found string"),
        (r#"{"spec":{"nodeName":5}}"#, "spec.nodeName: expected string, found number"),
        (r#"{"metadata":{"labels":{"tier":1}}}"#, "metadata.labels.tier: expected string, found number"),
        (r#"{"metadata":{"labels":{"tier":{"a":"b"}}}}"#, "metadata.labels.tier: expected string, found object"),
        (r#"{"metadata":{"finalizers":["a",2]}}"#, "metadata.finalizers[1]: expected string, found number"),
        (r#"{"metadata":{"generation":1.5}}"#, "metadata.generation: expected integer, found number 1.5"),
        (r#"{"metadata":{"generation":1e3}}"#, "metadata.generation: expected integer, found number 1e3"),
        (r#"{"spec":{"priority":2147483648}}"#, "spec.priority: 2147483648 does not fit 32 bits"),
        (r#"{"spec":{"priority":-2147483649}}"#, "spec.priority: -2147483649 does not fit 32 bits"),
        (
            r#"{"metadata":{"generation":9223372036854775808}}"#,
            "metadata.generation: number is too large for an integer",
        ),
        (
            r#"{"metadata":{"generation":-9223372036854775809}}"#,
            "metadata.generation: number is too large for an integer",
        ),
        (r#"{"metadata":{"generation":01}}"#, "metadata.generation: a number must not begin with 0"),
        (r#"{"metadata":{"generation":-}}"#, "metadata.generation: expected integer, found number"),
        (r#"{"metadata":{"creationTimestamp":"yesterday"}}"#, "metadata.creationTimestamp: "),
        (r#"{"metadata":{"creationTimestamp":7}}"#, "metadata.creationTimestamp: expected string, found number"),
        (
            r#"{"spec":{"containers":[{"resources":{"limits":{"cpu":"a lot"}}}]}}"#,
            "spec.containers[0].resources.limits.cpu: ",
        ),
        (
            r#"{"spec":{"containers":[{"livenessProbe":{"httpGet":{"port":true}}}]}}"#,
            "spec.containers[0].livenessProbe.httpGet.port: expected integer or string, found boolean",
        ),
        (r#"{"kind":"Service"}"#, "kind: expected Pod, found Service"),
        (r#"{"apiVersion":"v2"}"#, "apiVersion: expected v1, found v2"),
        (r#"{"kind":7}"#, "kind: expected string, found number"),
        (r#"{}x"#, "unexpected text after the value, at byte 2"),
        (r#"{} {}"#, "unexpected text after the value, at byte 3"),
        (r#"[]"#, "expected object, found array"),
        (r#"null"#, "expected object, found null"),
        ("", "unexpected end of input"),
        ("{\"spec\":{\0", "spec: expected a key in quotes, found `\\u{0}` at byte 9"),
        (r#"{"spec" {}}"#, "expected `:`, found `{` at byte 8"),
        (r#"{"spec":{},}"#, "expected a key in quotes, found `}` at byte 11"),
        (r#"{"spec":{"containers":[{},]}}"#, "spec.containers[1]: "),
        (r#"{spec:{}}"#, "expected a key in quotes, found `s` at byte 1"),
        (r#"{"spec":{}"unknown":1}"#, r#"expected `,` or `}`, found `\"` at byte 10"#),
        (r#"{"spec":nil}"#, "spec: expected null, found `n` at byte 8"),
        (r#"{"unknown":tru}"#, "unknown: expected true, found `t` at byte 11"),
        (r#"{"unknown":[1,2}"#, "unknown: expected `,` or `]`, found `}` at byte 15"),
        (r#"{"unknown":1.}"#, "unknown: malformed number at byte 11"),
        (r#"{"unknown":+1}"#, "unknown: expected a value, found `+` at byte 11"),
    ] {
        let found = error::<Pod>(json);
        assert!(found == wanted || wanted.ends_with(": ") && found.starts_with(wanted), "{json}: {found}");
    }
    let schema =
        r#"{"spec":{"versions":[{"schema":{"openAPIV3Schema":{"properties":{"a":{"items":[{"maximum":"1"}]}}}}}]}}"#;
    assert_eq!(
        error::<CustomResourceDefinition>(schema),
        "spec.versions[0].schema.openAPIV3Schema.properties.a.items[0].maximum: expected number, found string"
    );
    assert!(error::<Secret>(r#"{"data":{"key":"not base64!"}}"#).starts_with("data.key: "));
}

#[test]
fn text_that_ends_early_is_an_error_wherever_it_ends() {
    for end in 0..POD_JSON.len() {
        let error = decode::<Pod>(&POD_JSON[..end]).expect_err("is cut");
        assert!(error.is_truncated(), "cut at {end}: {error}");
        assert!(Value::from_json(&POD_JSON[..end]).is_err());
    }
}

#[test]
fn strings_are_unicode_or_an_error() {
    let label = |text: &[u8]| [br#"{"metadata":{"labels":{"a":""#, text, br#""}}}"#].concat();
    let key = |text: &[u8]| [br#"{"metadata":{"labels":{""#, text, br#"":"a"}}}"#].concat();
    let unknown = |text: &[u8]| [br#"{"unknown":""#, text, br#""}"#].concat();
    for (text, wanted) in [
        (&b"\xff"[..], "invalid UTF-8"),
        (b"abc\xc3", "invalid UTF-8"),
        (b"\xed\xa0\x80", "invalid UTF-8"),
        (b"\xf5\x80\x80\x80", "invalid UTF-8"),
        (b"\xc0\xaf", "invalid UTF-8"),
        (br"\ud800", "lone surrogate"),
        (br"\udc00", "lone surrogate"),
        (br"\ud800\ud800", "lone surrogate"),
        (br"\ud800x", "lone surrogate"),
        (br"\ud800\n", "lone surrogate"),
        (br"\u12g4", "unknown escape"),
        (br"\x41", "unknown escape"),
        (b"\n", "control character"),
        (b"\x00", "control character"),
        (b"\x1f", "control character"),
    ] {
        for json in [label(text), key(text), unknown(text)] {
            let found = error::<Pod>(&json);
            assert!(found.contains(wanted), "{}: {found}", String::from_utf8_lossy(&json));
        }
        let name = [b"{\"", text, b"\":1}"].concat();
        assert!(error::<Pod>(&name).contains(wanted), "{}", String::from_utf8_lossy(&name));
        assert!(Value::from_json(&name).expect_err("is broken").to_string().contains(wanted));
    }
    let good: Pod = decode(label(r"\ud83d\ude00\u00e9\/\b\f".as_bytes())).expect("decodes");
    assert_eq!(good.metadata.labels.get("a").expect("a label"), "😀é/\u{8}\u{c}");
}

#[test]
fn absurd_nesting_is_an_error() {
    let nested = |open: &str, close: &str, depth: usize| format!("{}{}", open.repeat(depth), close.repeat(depth));
    for depth in [600, 100_000] {
        let unknown = format!(r#"{{"unknown":{}}}"#, nested("[", "]", depth));
        assert_eq!(error::<Pod>(&unknown), "unknown: nested deeper than 512 values");
        let managed =
            format!(r#"{{"metadata":{{"managedFields":[{{"fieldsV1":{}}}]}}}}"#, nested(r#"{"f:a":"#, "1}", depth));
        assert!(error::<Pod>(&managed).contains("nested deeper than 512"), "{}", error::<Pod>(&managed));
        let mut skipping = Decoder::new().skip_managed_fields();
        assert!(skipping.json::<Pod>(managed.as_bytes()).is_err());
        let schema = nested(r#"{"not":"#, "}", depth);
        let crd = format!(r#"{{"spec":{{"versions":[{{"schema":{{"openAPIV3Schema":{schema}}}}}]}}}}"#);
        assert!(error::<CustomResourceDefinition>(&crd).contains("nested deeper than 100 objects"));
        let array = nested(r#"{"items":["#, "]}", depth);
        let crd = format!(r#"{{"spec":{{"versions":[{{"schema":{{"openAPIV3Schema":{array}}}}}]}}}}"#);
        assert!(error::<CustomResourceDefinition>(&crd).contains("nested deeper than 100 objects"));
        assert!(nested("[", "]", depth).parse::<Value>().is_err());
        let dynamic = format!(r#"{{"kind":"Foo","spec":{}}}"#, nested("[", "]", depth));
        assert!(dynamic.parse::<DynamicObject>().is_err());
        assert!(nested("[", "]", depth).parse::<RawJson>().is_err());
    }
    // Schemas with ninety levels exist.
    let schema = format!("{}{{}}{}", r#"{"not":"#.repeat(90), "}".repeat(90));
    let crd = format!(r#"{{"spec":{{"versions":[{{"schema":{{"openAPIV3Schema":{schema}}}}}]}}}}"#);
    decode::<CustomResourceDefinition>(crd).expect("decodes");
}

#[test]
fn out_of_range_numbers_fail_in_known_fields_and_are_skipped_in_unknown_ones() {
    let digits = "9".repeat(100_000);
    assert_eq!(
        error::<Pod>(format!(r#"{{"metadata":{{"generation":{digits}}}}}"#)),
        "metadata.generation: number is too large for an integer"
    );
    decode::<Pod>(format!(r#"{{"unknown":-{digits}.{digits}e{digits}}}"#)).expect("unknown fields are not parsed");
    let crd = |number: &str| {
        format!(r#"{{"spec":{{"versions":[{{"schema":{{"openAPIV3Schema":{{"maximum":{number}}}}}}}]}}}}"#)
    };
    assert!(error::<CustomResourceDefinition>(crd("1e400")).ends_with("maximum: number 1e400 is too large"));
    decode::<CustomResourceDefinition>(crd("1e308")).expect("fits");
    for quantity in [&digits, &format!("1e{digits}"), "1e999999999", "0.1e-999999999"] {
        let json = format!(r#"{{"spec":{{"overhead":{{"cpu":"{quantity}"}}}}}}"#);
        // It may be truncated or rejected, but must take little time and memory.
        let _ = decode::<Pod>(json);
    }
    assert!("1e400".parse::<Value>().is_err());
}

#[test]
fn a_repeated_field_is_an_error() {
    for (json, path) in [
        (r#"{"spec":{"nodeName":"a","nodeName":"b"}}"#, "spec.nodeName"),
        (r#"{"spec":{},"spec":{}}"#, "spec"),
        (r#"{"metadata":{"labels":{"a":"1","a":"2"}}}"#, "metadata.labels.a"),
        (r#"{"spec":{"containers":[{"name":"a"},{"env":[],"env":[]}]}}"#, "spec.containers[1].env"),
        (r#"{"spec":{"overhead":{"cpu":"1","cpu":"2"}}}"#, "spec.overhead.cpu"),
    ] {
        assert_eq!(error::<Pod>(json), format!("{path}: duplicate field"));
        let mut decoder = Decoder::new().report_findings();
        decoder.json::<Pod>(json.as_bytes()).expect("is tolerated when it is reported");
        assert_eq!(decoder.take_findings(), [Finding::DuplicateField(path.into())]);
        assert_eq!(decoder.take_findings(), []);
    }
    // The last of the repeated fields wins.
    let mut decoder = Decoder::new().report_findings();
    let json = br#"{"metadata":{"labels":{"a":"1"},"labels":{"b":"2"},"finalizers":["a"],"finalizers":["b"],"name":"a","name":"b"}}"#;
    let pod: Pod = decoder.json(json).expect("decodes");
    assert_eq!(
        pod.to_json(),
        br#"{"kind":"Pod","apiVersion":"v1","metadata":{"name":"b","labels":{"b":"2"},"finalizers":["b"]}}"#
    );
}

#[test]
fn unknown_fields_are_passed_over_and_can_be_reported() {
    let json = br#"{"kind":"Pod","extra":1,"metadata":{"naem":"a","managedFields":[{"fieldsV1":{"f:x":{}},"no":[]}]},
        "spec":{"containers":[{"name":"a"},{"nmae":{"deep":[{}]},"ports":[{"port":1},{"port":2}]}],
        "overhead":{"cpu":"1"}},"Status":null}"#;
    decode::<Pod>(json).expect("unknown fields are no error");
    let mut decoder = Decoder::new().report_findings();
    decoder.json::<Pod>(json).expect("nor when they are reported");
    let paths = [
        "extra",
        "metadata.naem",
        "metadata.managedFields[0].no",
        "spec.containers[1].nmae",
        "spec.containers[1].ports[0].port",
        "spec.containers[1].ports[1].port",
        "Status",
    ];
    assert_eq!(decoder.take_findings(), paths.map(|path| Finding::UnknownField(path.into())));
}

#[test]
fn null_leaves_a_field_unset() {
    let pod: Pod = decode(
        r#"{"kind":null,"metadata":{"name":null,"labels":null,"finalizers":null,"creationTimestamp":null},
            "spec":{"containers":null,"priority":null,"hostNetwork":null,"overhead":null,"affinity":null},"status":null}"#,
    )
    .expect("decodes");
    assert_eq!(pod.metadata, Default::default());
    assert_eq!(pod.status, None);
    // Within lists and maps it is the zero value, as in Go.
    let pod: Pod = decode(r#"{"metadata":{"labels":{"a":null},"finalizers":[null]}}"#).expect("decodes");
    assert_eq!(pod.metadata.labels.get("a").expect("a label"), "");
    assert_eq!(pod.metadata.finalizers[..], [""]);
}

/// Raw JSON is stored as text after a syntax check. Parsing it later may fail, but never panics.
#[test]
fn invalid_raw_json_is_an_error_when_it_is_parsed() {
    let deep = format!("{}{}", "[".repeat(400), "]".repeat(400));
    for odd in [&deep[..], "1e999", r#"{"a":1,"a":2}"#] {
        let raw: RawJson = odd.parse().expect("is JSON");
        assert!(raw.to_value().is_err(), "{odd}");
        let json =
            format!(r#"{{"kind":"Foo","metadata":{{"name":"a","managedFields":[{{"fieldsV1":{{"f:a":{odd}}}}}]}}}}"#);
        let mut object: DynamicObject = json.parse().expect("decodes");
        // Neither may panic, whatever the result.
        let _ = object.get(&["metadata", "name"]);
        let _ = object.set(&["metadata", "labels", "a"], "b");
        let _ = object.remove(&["metadata", "name"]);
        let pod: Pod = decode(json.replace("Foo", "Pod")).expect("decodes");
        let _ = serde_json::to_value(&pod);
    }
}

/// Decoding uses memory in proportion to its input. The worst case is an empty object: a few bytes
/// of text become a struct of a few hundred bytes.
#[test]
fn memory_is_in_proportion_to_the_text() {
    let largest = crate::model::types().iter().map(|entry| size_of_val(&*(entry.new)())).max().expect("types");
    let pod = |containers: String| format!(r#"{{"spec":{{"containers":[{containers}]}}}}"#);
    let labels = (0..20_000).map(|index| format!(r#""{index}":"""#)).collect::<Vec<_>>().join(",");
    for json in [
        pod(vec!["{}"; 20_000].join(",")),
        pod(format!(r#"{{"ports":[{}]}}"#, vec!["{}"; 20_000].join(","))),
        format!(r#"{{"metadata":{{"labels":{{{labels}}}}}}}"#),
        format!(r#"{{"unknown":[{}1]}}"#, "1,".repeat(50_000)),
        format!(r#"{{"metadata":{{"name":"{}"}}}}"#, r"\u0041".repeat(20_000)),
        format!(r#"{{"metadata":{{"name":"{}"#, "a".repeat(100_000)),
    ] {
        let measured = allocation_counter::measure(|| drop(decode::<Pod>(&json)));
        let factor = measured.bytes_max as usize / json.len();
        assert!(factor <= largest, "{factor} times the text: {}", &json[..60]);
    }
    // An array of numbers, whose tree is larger than its text.
    let json = format!(r#"{{"spec":[{}1]}}"#, "1,".repeat(50_000));
    let measured = allocation_counter::measure(|| drop(json.parse::<DynamicObject>()));
    assert!(measured.bytes_max as usize / json.len() <= 3 * size_of::<Value>());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_pod_with_damaged_bytes_is_decoded_or_refused(damage in prop::collection::vec((0..POD_JSON.len(), any::<u8>()), 1..4)) {
        let mut json = POD_JSON.to_vec();
        for (at, byte) in damage {
            json[at] = byte;
        }
        if let Ok(pod) = decode::<Pod>(&json) {
            prop_assert_eq!(decode::<Pod>(pod.to_json()), Ok(pod));
        }
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let _ = decode::<Pod>(&bytes);
        let _ = Value::from_json(&bytes);
    }

    #[test]
    fn random_json_text_is_accepted_exactly_when_serde_json_accepts_it(parts in prop::collection::vec(0..PARTS.len(), 0..24)) {
        let json: String = parts.into_iter().map(|part| PARTS[part]).collect();
        let (ours, theirs) = (Value::from_json(json.as_bytes()), serde_json::from_str::<serde_json::Value>(&json));
        // We drop the sign of zero, because zero is an integer.
        prop_assume!(!json.contains("-0"));
        // serde_json keeps the last of two equal keys; we reject them.
        if ours.as_ref().is_err_and(|error| error.to_string().contains("duplicate field")) {
            return Ok(());
        }
        {
            prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "{}: {:?}, {:?}", json, ours, theirs);
            prop_assert_eq!(decode::<ConfigMap>(format!(r#"{{"unknown":{json}}}"#)).is_ok() || json.trim().is_empty(), theirs.is_ok() || json.trim().is_empty());
            if let (Ok(ours), Ok(theirs)) = (ours, theirs) {
                prop_assert_eq!(serde_json::from_str::<serde_json::Value>(&ours.to_string()).expect("JSON"), theirs);
            }
        }
    }
}

/// Fragments of valid and invalid JSON.
const PARTS: &[&str] = &[
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"a\"",
    "\"b\"",
    "\"\\u00e9\"",
    "\"",
    "\\",
    "1",
    "0",
    "-",
    ".",
    "e",
    "+",
    "true",
    "null",
    "false",
    " ",
    "\n",
    "{\"a\":",
    "{\"b\":[",
    "]}",
    "1.5",
    "{}",
    "[]",
];
