//! Estimated costs of rules, compared with those of kube-apiserver.

use crate::Schema;
use crate::rule::environment;

/// The estimated cost of a rule for one value of a schema.
fn rule_cost(schema: &str, rule: &str) -> u64 {
    let schema = Schema::parse(&schema.parse().expect("valid JSON"));
    let environment = environment(&schema.cel_type(false).expect("a type"), false);
    let size = schema.value_size(false).expect("a size");
    let program = environment.compile(rule).expect("a valid rule");
    environment.max_cost(&program, &size.limits)
}

/// A schema with the placeholder `MAX` for a limit, the limit, a rule, and the costs of the rule
/// without and with the limit.
const CASES: &[(&str, u64, &str, u64, u64)] = &[
    (ARRAY_OF_NUMBERS, 10, "self.all(x, true)", 4718591, 32),
    (ARRAY_OF_STRINGS, 20, "self.all(x, true)", 3145727, 62),
    (r#"{"type":"array","items":{"type":"boolean"},"maxItems":MAX}"#, 5, "self.all(x, true)", 1887437, 17),
    (ARRAY_OF_ARRAYS, 100, "self.all(x, true)", 3145727, 302),
    (ARRAY_OF_OBJECTS, 50, "self.all(x, true)", 555128, 152),
    (MAP_OF_NUMBERS, 10, "self.all(x, true)", 1348169, 32),
    (MAP_OF_STRINGS, 3, "self.all(x, true)", 1179647, 11),
    (STRING, 10, "self.contains('test')", 314574, 5),
    (STRING, 15, "self.startsWith('test')", 2, 2),
    (STRING, 30, "self.endsWith('test')", 2, 2),
    (STRING, 4, r#"size(self + "hello") > size("hello")"#, 314578, 7),
    (ARRAY_OF_NUMBERS, 5000, "self[1] == 0.0", 2, 2),
    (ARRAY_OF_STRINGS, 8, "self[1] == self[1]", 314577, 314577),
    (STRING, 50, r#"self.matches("x")"#, 314574, 22),
    (STRING, 10, r#""".matches("(((((((((())))))))))[0-9]")"#, 7, 7),
    (STRING, 100, r#"self.matches("")"#, 1, 1),
    (MAP_OF_LIMITED_STRINGS, 10, "self.all(x, x.contains(self[x]))", 2752507, 72),
    (ARRAY_OF_NUMBERS, 0, "self[3] == 0.0", 2, 2),
    (MAP_OF_NUMBERS, 0, r#"self["x"] == 0.0"#, 2, 2),
    (STRING, 0, r#"self == "x""#, 2, 1),
    (r#"{"type":"string","format":"byte","maxLength":MAX}"#, 0, r#"self == b"x""#, 2, 1),
    (ARRAY_OF_NUMBERS, 3 * 1024 * 2048, "self.all(x, x == 0.0)", 6291454, 25165826),
    (ARRAY_OF_INT_OR_STRINGS, 10, "self.all(x, true)", 4718591, 32),
    (ARRAY_OF_INT_OR_STRINGS, 10, "self[0] == 5", 3, 3),
    (ARRAY_OF_OBJECTS, 422, "self[0] == null", 2, 2),
    (ARRAY_OF_ARRAYS, 51, "self[0][0] == -1.0", 3, 3),
    (ARRAY_OF_MAPS, 12, "self.all(x, x.y == 25.2)", 6291452, 74),
    (ARRAY_OF_MAPS, 3000, "self[0].x > 2.0", 4, 4),
    (ARRAY_OF_DURATIONS, 5, "self.all(x, true)", 2359295, 17),
    (ARRAY_OF_DURATIONS, 525, "self[0].getHours() == 2", 4, 4),
    (
        r#"{"type":"array","items":{"type":"string","format":"date"},"maxItems":MAX}"#,
        15,
        "self.all(x, true)",
        725936,
        47,
    ),
    (
        r#"{"type":"array","items":{"type":"string","format":"date-time"},"maxItems":MAX}"#,
        25,
        "self.all(x, true)",
        428963,
        77,
    ),
    (STRING, 10, "self.find('[0-9]+') == ''", 629147, 11),
    (ARRAY_OF_LIMITED_STRINGS, 10, "self.join(' ') == 'aa bb'", 329853068905, 43),
    (ARRAY_OF_LIMITED_STRINGS, 10, "self.isSorted() == true", 329854432052, 52),
    (REPLACEMENT, 4, "self.str.replace(self.before, self.after) == 'does not matter'", 629154, 12),
    (SEPARATED, 10, "self.str.split(self.separator) == []", 629160, 22),
    (STRING, 10, "self.lowerAscii() == 'lower!'", 314575, 6),
    (MAP_OF_NUMBERS, 10, "oldSelf.size() == self.size()", 5, 5),
    (MAP_OF_TIMES, 7, r#"self["a"] == self["b"]"#, 8, 8),
    (r#"{"type":"string","enum":["A","B","C","LongValue"],"maxLength":MAX}"#, 1000, "self.contains('A')", 2, 401),
    (r#"{"x-kubernetes-int-or-string":true,"maxLength":MAX}"#, 20, "isQuantity(self)", 314574, 9),
];

const STRING: &str = r#"{"type":"string","maxLength":MAX}"#;
const ARRAY_OF_NUMBERS: &str = r#"{"type":"array","items":{"type":"number"},"maxItems":MAX}"#;
const ARRAY_OF_STRINGS: &str = r#"{"type":"array","items":{"type":"string"},"maxItems":MAX}"#;
const ARRAY_OF_LIMITED_STRINGS: &str = r#"{"type":"array","items":{"type":"string","maxLength":MAX},"maxItems":MAX}"#;
const ARRAY_OF_INT_OR_STRINGS: &str = r#"{"type":"array","items":{"x-kubernetes-int-or-string":true},"maxItems":MAX}"#;
const ARRAY_OF_DURATIONS: &str = r#"{"type":"array","items":{"type":"string","format":"duration"},"maxItems":MAX}"#;
const ARRAY_OF_ARRAYS: &str = r#"{"type":"array","items":{"type":"array","items":{"type":"number"}},"maxItems":MAX}"#;
const ARRAY_OF_OBJECTS: &str = r#"{"type":"array","items":{"type":"object","required":["required"],
    "properties":{"required":{"type":"string"},"optional":{"type":"string"}}},"maxItems":MAX}"#;
const ARRAY_OF_MAPS: &str =
    r#"{"type":"array","items":{"type":"object","additionalProperties":{"type":"number"}},"maxItems":MAX}"#;
const MAP_OF_NUMBERS: &str = r#"{"type":"object","additionalProperties":{"type":"number"},"maxProperties":MAX}"#;
const MAP_OF_STRINGS: &str = r#"{"type":"object","additionalProperties":{"type":"string"},"maxProperties":MAX}"#;
const MAP_OF_LIMITED_STRINGS: &str =
    r#"{"type":"object","additionalProperties":{"type":"string","maxLength":MAX},"maxProperties":MAX}"#;
const MAP_OF_TIMES: &str =
    r#"{"type":"object","additionalProperties":{"type":"string","format":"date-time"},"maxProperties":MAX}"#;
const REPLACEMENT: &str = r#"{"type":"object","properties":{"str":{"type":"string","maxLength":MAX},
    "before":{"type":"string","maxLength":2},"after":{"type":"string","maxLength":4}}}"#;
const SEPARATED: &str = r#"{"type":"object","properties":{"str":{"type":"string","maxLength":MAX},
    "separator":{"type":"string","maxLength":MAX}}}"#;

#[test]
fn costs_equal_those_of_kube_apiserver() {
    for (schema, max, rule, without, with) in CASES {
        let unlimited = schema.replace(r#","maxItems":MAX"#, "").replace(r#","maxLength":MAX"#, "");
        let unlimited = unlimited.replace(r#","maxProperties":MAX"#, "");
        let limited = schema.replace("MAX", &max.to_string());
        assert_eq!((rule_cost(&unlimited, rule), rule_cost(&limited, rule)), (*without, *with), "{rule} of {schema}");
    }
}

#[test]
fn costs_of_nested_loops_multiply() {
    let limited = ARRAY_OF_NUMBERS.replace("MAX", "10");
    assert_eq!(rule_cost(&limited, "self.all(x, self.all(y, true))"), 352);
    assert_eq!(rule_cost(&limited, "self.all(x, self.all(y, self.all(z, true)))"), 3552);
    let unlimited = ARRAY_OF_NUMBERS.replace(r#","maxItems":MAX"#, "");
    assert!(rule_cost(&unlimited, "self.all(x, self.all(y, true))") > 10_000_000);
}
